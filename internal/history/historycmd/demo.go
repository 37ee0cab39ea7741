package historycmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/demo"
	"github.com/dalsegno/segno/internal/local"
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

// runDemo makes a scratch project with a separate store, records the scripted turns in it, and runs verbs on them.
func (a *app) runDemo(ctx context.Context) error {
	project, err := demo.MakeProject()
	if err != nil {
		return err
	}
	scratch := filepath.Dir(project)
	a.StorePath, a.Directory, a.ThreadName, a.Yes = filepath.Join(scratch, "store"), project, "", true
	d, err := a.OpenOrRegister(ctx)
	if err != nil {
		return err
	}
	agent := demo.Recorder{Timeline: d.Timeline, Home: d.Store.Place().DemoHome(), Environ: a.Environ()}
	err = agent.Record(ctx, func(n int, prompt string) { a.printf("turn %d: %q", n, prompt) })
	d.Close()
	if err != nil {
		return err
	}
	if err := a.tour(ctx, scratch); err != nil {
		return err
	}
	a.printNextSteps(scratch, project)
	return nil
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
	err = demo.ReadSession(src.Path, func(role, text string) {
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
