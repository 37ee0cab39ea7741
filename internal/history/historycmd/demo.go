package historycmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) demo() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "see it work, without an agent or a key", Args: cobra.NoArgs,
		Long: `In a scratch directory, a small scripted agent takes four turns: it writes files, runs
shell commands and keeps a transcript. Then the demo shows log, undo, redo and a fork, with
the files and with the agent's memory. The directory and the store stay, and the demo
prints commands to continue with.`,
		Example: "  segno demo",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runDemo(c.Context()) },
	}
}

// demoTurn is one turn of the scripted agent.
type demoTurn struct {
	prompt string
	calls  []demoCall
	answer string
}

// demoCall is one tool call: a file to write, or a shell command to run.
type demoCall struct {
	Path    string `json:"file_path,omitempty"`
	Content string `json:"content,omitempty"`
	Command string `json:"command,omitempty"`
}

var demoScript = [...]demoTurn{
	{"write a small greeting program", []demoCall{
		{Path: "src/greet.sh", Content: "#!/bin/sh\necho \"hello, $1\"\n"},
		{Command: "chmod +x src/greet.sh && src/greet.sh world"}}, "greet.sh says hello."},
	{"add a test and a note about it", []demoCall{
		{Path: "src/greet_test.sh", Content: "#!/bin/sh\ntest \"$(./greet.sh x)\" = \"hello, x\"\n"},
		{Path: "NOTES.md", Content: "# Notes\n\nRun src/greet_test.sh.\n"}}, "Added a test."},
	{"rename it, and make it shout", []demoCall{
		{Command: "mv src/greet.sh src/shout.sh && sed -i.bak 's/hello/HELLO/' src/shout.sh && rm src/shout.sh.bak"}},
		"It shouts, under a new name."},
	{"clean up", []demoCall{
		{Command: "rm -r src/greet_test.sh NOTES.md .env"}}, "All clean."},
}

// runDemo makes a scratch project with a separate store, records the scripted turns in it, and runs verbs on them. The
// .env file shows that segno also restores files that no commit would contain.
func (a *app) runDemo(ctx context.Context) error {
	scratch, err := os.MkdirTemp("", "segno-demo-")
	if err != nil {
		return segno.NewError(segno.KindIO, "demo", "", err).WithHint("set TMPDIR to a directory that can be written")
	}
	if scratch, err = filepath.EvalSymlinks(scratch); err != nil {
		return err
	}
	project := filepath.Join(scratch, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(project, ".env"), []byte("TOKEN=not-a-real-one\n"), 0o600); err != nil {
		return err
	}
	a.StorePath, a.Directory, a.ThreadName, a.Yes = filepath.Join(scratch, "store"), project, "", true
	d, err := a.OpenOrRegister(ctx)
	if err != nil {
		return err
	}
	transcript := newDemoTranscript(d.Store.Place().DemoHome(), d.Rec.Path)
	for i, t := range demoScript {
		a.printf("turn %d: %q", i+1, t.prompt)
		if err := a.demoTurn(ctx, d, transcript, t); err != nil {
			d.Close()
			return fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	d.Close()
	if err := a.tour(ctx, scratch); err != nil {
		return err
	}
	a.printNextSteps(scratch, project)
	return nil
}

// demoTurn records a turn as hooks do: it begins the turn, appends an entry before and after each
// call, and ends the turn.
func (a *app) demoTurn(ctx context.Context, d *cli.Workspace, transcript *demoTranscript, t demoTurn) error {
	src := transcript.src
	begun, err := d.Timeline.BeginTurn(ctx, timeline.Prompt{Agent: local.AgentDemo, Source: src, Text: t.prompt})
	if err != nil {
		return err
	}
	for i, call := range t.calls {
		entry := segno.Entry{ID: fmt.Sprintf("call-%d", i+1), Name: "Write", Session: src.Session}
		if call.Command != "" {
			entry.Name = "Bash"
		}
		record := func(kind segno.EntryKind, body any) (err error) {
			entry.Kind, entry.Time = kind, d.Timeline.Now()
			if entry.Body, err = json.Marshal(body); err == nil {
				err = d.Timeline.AppendEntry(ctx, begun.Key, entry)
			}
			return err
		}
		if err := record(segno.EntryIntent, call); err != nil {
			return err
		}
		result, err := a.demoCall(ctx, d.Rec.Path, call)
		if err != nil {
			return err
		}
		if err := record(segno.EntryResult, result); err != nil {
			return err
		}
	}
	if err := transcript.append(t); err != nil {
		return err
	}
	_, err = d.Timeline.EndTurn(ctx, timeline.TurnEnd{Key: begun.Key, Agent: local.AgentDemo, Source: src, Message: t.answer})
	return err
}

// demoCall executes a call in the project and returns its result.
func (a *app) demoCall(ctx context.Context, project string, call demoCall) (map[string]any, error) {
	if call.Command != "" {
		cmd := exec.CommandContext(ctx, "sh", "-c", call.Command)
		cmd.Dir, cmd.Env = project, a.Environ()
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("run %q: %w: %s", call.Command, err, out)
		}
		return map[string]any{"exit": 0, "response": string(out)}, nil
	}
	path := filepath.Join(project, call.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return map[string]any{"exit": 0}, os.WriteFile(path, []byte(call.Content), 0o644)
}

// tour runs verbs on the four turns.
func (a *app) tour(ctx context.Context, scratch string) error {
	for _, s := range []struct{ comment, run string }{
		{"every turn is a checkpoint", "log"},
		{"the last turn deleted three files with rm, one of them untracked and secret; undo it", "undo"},
		{"and do it again", "redo"},
		{"back two turns", "undo 2"},
		{"try something else from turn 2, in a separate directory", "fork t2 --to ../try-something-else"},
		{"nothing was lost: the thread still has all its turns", "log"},
		{"each move can be undone, too", "op log"},
	} {
		a.printf("\n# %s\n$ segno %s", s.comment, s.run)
		isMove := strings.HasPrefix(s.run, "undo") || strings.HasPrefix(s.run, "redo")
		args := append(strings.Fields(s.run), "--store", filepath.Join(scratch, "store"), "-C", a.Directory)
		if isMove {
			args = append(args, "-y")
		}
		root := a.Again().Root()
		root.SetArgs(args)
		root.SetOut(a.Stdout)
		root.SetErr(a.Stderr)
		if err := root.ExecuteContext(ctx); err != nil {
			return fmt.Errorf("segno %s: %w", s.run, err)
		}
		if !isMove {
			continue
		}
		if err := a.listProject(); err != nil {
			return err
		}
		if err := a.recallHead(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) listProject() error {
	a.printf("$ find . -type f")
	return filepath.WalkDir(a.Directory, func(path string, de os.DirEntry, err error) error {
		if err != nil || de.IsDir() {
			return err
		}
		rel, err := filepath.Rel(a.Directory, path)
		a.printf("./%s", rel)
		return err
	})
}

// recallHead shows the conversation at the head of the thread.
func (a *app) recallHead(ctx context.Context) error {
	d, err := a.Open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	h, err := a.History(ctx, d)
	if err != nil {
		return err
	}
	a.printf("$ segno demo-agent --resume %s", h.Head.Link.Session)
	return a.recall(ctx, d.Store, h.Head.Link.Session)
}

// recall prints the conversation of a session of the scripted agent.
func (a *app) recall(ctx context.Context, store *local.Store, session segno.SessionID) error {
	src, err := store.Transcripts()[local.AgentDemo].Find(ctx, session)
	if err != nil {
		return err
	}
	err = readDemo(src.Path, func(role, text string) {
		if role == "user" {
			text = "> " + text
		}
		a.printf("%s", cli.Inline(text))
	})
	if err != nil {
		return segno.NewError(segno.KindIO, "read session", string(session), err)
	}
	return nil
}

// printNextSteps prints commands that work in the shell from which the demo was started. They use the path of this
// binary, or 'go run' if the go command made a temporary binary, which no hook can run.
func (a *app) printNextSteps(scratch, project string) {
	self, installed := "segno", "segno"
	if exe, err := a.Executable(); err == nil && !strings.Contains(exe, "go-build") {
		self = cli.ShellQuote(exe)
		installed = self
	} else if err == nil {
		self, installed = "go run ./cmd/segno", "CGO_ENABLED=0 go install ./cmd/segno ./cmd/segno-hook && segno"
	}
	flags := fmt.Sprintf("--store %s -C %s", cli.ShellQuote(filepath.Join(scratch, "store")), cli.ShellQuote(project))
	a.printf(`
directory  %s
store      %s

Go on with:
  %s log %s
  %s show t3 %s
  %s diff t2 t3 %s
  %s restore t4 %s
With a real agent: %s enable claude

See it in a browser:
  %s web %s`, project, filepath.Join(scratch, "store"),
		self, flags, self, flags, self, flags, self, flags, installed, self, flags)
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.Stdout, format+"\n", args...) }

// demoAgent shows a session of the scripted agent. It is the command that continues a thread of the
// demo. The agent takes no prompts.
func (a *app) demoAgent() *cobra.Command {
	var resume string
	c := &cobra.Command{Use: "demo-agent", Hidden: true, Args: cobra.NoArgs,
		RunE: a.InStore(func(ctx context.Context, store *local.Store, _ []string) error {
			return a.recall(ctx, store, segno.SessionID(resume))
		})}
	c.Flags().StringVar(&resume, "resume", "", "show the conversation of `SESSION`")
	return c
}
