// Package demo is the scripted agent of 'segno demo', which needs no model and no key. It works in a scratch directory.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// turn is one turn of the scripted agent.
type turn struct {
	prompt string
	calls  []call
	answer string
}

// call is one tool call: a file to write, or a shell command to run.
type call struct {
	Path    string `json:"file_path,omitempty"`
	Content string `json:"content,omitempty"`
	Command string `json:"command,omitempty"`
}

var script = [...]turn{
	{"write a small greeting program", []call{
		{Path: "src/greet.sh", Content: "#!/bin/sh\necho \"hello, $1\"\n"},
		{Command: "chmod +x src/greet.sh && src/greet.sh world"}}, "greet.sh says hello."},
	{"add a test and a note about it", []call{
		{Path: "src/greet_test.sh", Content: "#!/bin/sh\ntest \"$(./greet.sh x)\" = \"hello, x\"\n"},
		{Path: "NOTES.md", Content: "# Notes\n\nRun src/greet_test.sh.\n"}}, "Added a test."},
	{"rename it, and make it shout", []call{
		{Command: "mv src/greet.sh src/shout.sh && sed -i.bak 's/hello/HELLO/' src/shout.sh && rm src/shout.sh.bak"}},
		"It shouts, under a new name."},
	{"clean up", []call{
		{Command: "rm -r src/greet_test.sh NOTES.md .env"}}, "All clean."},
}

// The names of a scratch directory and of the files in it. marker distinguishes it from other directories with such a name.
const (
	scratchPrefix = "segno-demo-"
	projectName   = "project"
	marker        = ".segno-demo"
)

// MakeProject makes a scratch directory and a project in it. The .env file shows that segno also restores files that no
// commit would contain.
func MakeProject() (project string, err error) {
	scratch, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return "", segno.NewError(segno.KindIO, "demo", "", err).WithHint("set TMPDIR to a directory that can be written")
	}
	if scratch, err = filepath.EvalSymlinks(scratch); err != nil {
		return "", segno.NewError(segno.KindIO, "demo", "", err)
	}
	project = filepath.Join(scratch, projectName)
	err = os.WriteFile(filepath.Join(scratch, marker), nil, 0o600)
	if err == nil {
		err = os.Mkdir(project, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(project, ".env"), []byte("TOKEN=not-a-real-one\n"), 0o600)
	}
	if err != nil {
		return "", segno.NewError(segno.KindIO, "demo", scratch, err)
	}
	return project, nil
}

// Scratch returns the scratch directory of a demo's project, or "" if another directory contains the project or if the
// scratch directory also contains the store.
func Scratch(project, store string) string {
	scratch := filepath.Dir(project)
	if filepath.Base(project) != projectName || !strings.HasPrefix(filepath.Base(scratch), scratchPrefix) {
		return ""
	}
	if rel, err := filepath.Rel(scratch, store); err != nil || filepath.IsLocal(rel) {
		return ""
	}
	if fi, err := os.Lstat(filepath.Join(scratch, marker)); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	return scratch
}

// Remove removes a scratch directory, and the sessions of the agent in its directories. home is the directory of the sessions.
func Remove(scratch, home string) error {
	sessions := sessionDir(home, scratch)
	dirs, err := os.ReadDir(filepath.Dir(sessions))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, dir := range dirs {
		if strings.HasPrefix(dir.Name(), filepath.Base(sessions)+"-") { // of a directory below the scratch directory
			err = errors.Join(err, os.RemoveAll(filepath.Join(filepath.Dir(sessions), dir.Name())))
		}
	}
	if err = errors.Join(err, os.RemoveAll(scratch)); err != nil {
		return segno.NewError(segno.KindIO, "remove demo", scratch, err)
	}
	return nil
}

// Recorder records the turns of the scripted agent as hooks do.
type Recorder struct {
	Timeline *timeline.Timeline
	Home     string   // the directory of the agent's sessions
	Environ  []string // of the agent's commands
}

// Record records all turns. It calls report before each of them.
func (r Recorder) Record(ctx context.Context, report func(n int, prompt string)) error {
	session := newTranscript(r.Home, r.Timeline.Workspace.Root())
	for i, t := range script {
		report(i+1, t.prompt)
		if err := r.record(ctx, session, t); err != nil {
			return fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	return nil
}

// record begins a turn, appends an entry before and after each call, and ends the turn.
func (r Recorder) record(ctx context.Context, session *transcript, t turn) error {
	begun, err := r.Timeline.BeginTurn(ctx, timeline.Prompt{Agent: local.AgentDemo, Source: session.src, Text: t.prompt})
	if err != nil {
		return err
	}
	for i, call := range t.calls {
		entry := segno.Entry{ID: fmt.Sprintf("call-%d", i+1), Name: "Write", Session: session.src.Session}
		if call.Command != "" {
			entry.Name = "Bash"
		}
		record := func(kind segno.EntryKind, body any) (err error) {
			entry.Kind, entry.Time = kind, r.Timeline.Now()
			if entry.Body, err = json.Marshal(body); err == nil {
				err = r.Timeline.AppendEntry(ctx, begun.Key, entry)
			}
			return err
		}
		if err := record(segno.EntryIntent, call); err != nil {
			return err
		}
		result, err := r.execute(ctx, call)
		if err != nil {
			return err
		}
		if err := record(segno.EntryResult, result); err != nil {
			return err
		}
	}
	if err := session.append(t); err != nil {
		return err
	}
	_, err = r.Timeline.EndTurn(ctx, timeline.TurnEnd{Key: begun.Key, Agent: local.AgentDemo, Source: session.src, Message: t.answer})
	return err
}

// execute executes a call in the project and returns its result.
func (r Recorder) execute(ctx context.Context, call call) (map[string]any, error) {
	project := r.Timeline.Workspace.Root()
	if call.Command != "" {
		cmd := exec.CommandContext(ctx, "sh", "-c", call.Command)
		cmd.Dir, cmd.Env = project, r.Environ
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

// Make makes a project and records the turns in a store. It returns their thread.
func Make(ctx context.Context, store *local.Store, environ []string) (segno.ThreadID, error) {
	project, err := MakeProject()
	if err != nil {
		return "", err
	}
	thread, err := recordIn(ctx, store, project, environ)
	if err != nil {
		err = errors.Join(err, Remove(filepath.Dir(project), store.Place().DemoHome()))
	}
	return thread, err
}

func recordIn(ctx context.Context, store *local.Store, project string, environ []string) (segno.ThreadID, error) {
	rec, err := store.Register(ctx, project)
	if err != nil {
		return "", err
	}
	tl, err := store.Timeline(rec, nil)
	if err != nil {
		return "", err
	}
	if err := (Recorder{tl, store.Place().DemoHome(), environ}).Record(ctx, func(int, string) {}); err != nil {
		return "", err
	}
	return tl.CurrentThread(ctx)
}
