package web_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// work is one turn that a test records as hooks do: files that tools write, shell commands, and the answer.
type work struct {
	prompt, answer string
	files          map[string]string
	shell          []string
}

// turn records a turn in the project of the demo.
func (d *demo) turn(w work) *segno.Checkpoint {
	d.Helper()
	store := d.openStore()
	defer store.Close()
	rec, err := store.Find(d.Context(), filepath.Join(d.dir, "project"))
	if err != nil {
		d.Fatal(err)
	}
	tl, err := store.Timeline(rec, nil)
	if err != nil {
		d.Fatal(err)
	}
	c, err := d.record(tl, w)
	if err != nil {
		d.Fatal(err)
	}
	return c
}

func (d *demo) record(tl *timeline.Timeline, w work) (*segno.Checkpoint, error) {
	ctx := d.Context()
	src := segno.Source{Session: segno.SessionID("session-" + d.Name()), Dir: filepath.Join(d.dir, "project")}
	begun, err := tl.BeginTurn(ctx, timeline.Prompt{Agent: "claude", Source: src, Text: w.prompt, Process: timeline.Process{PID: os.Getpid()}})
	if err != nil {
		return nil, err
	}
	calls := 0
	call := func(tool string, input any, do func() (string, error)) error {
		calls++
		entry := segno.Entry{Kind: segno.EntryIntent, ID: fmt.Sprint("call-", calls), Name: tool, Session: src.Session, Time: tl.Now()}
		if entry.Body, err = json.Marshal(input); err != nil {
			return err
		}
		if err := tl.AppendEntry(ctx, begun.Key, entry); err != nil {
			return err
		}
		out, err := do()
		if err != nil {
			return err
		}
		entry.Kind, entry.Time = segno.EntryResult, tl.Now()
		if entry.Body, err = json.Marshal(map[string]any{"exit": 0, "response": out}); err != nil {
			return err
		}
		return tl.AppendEntry(ctx, begun.Key, entry)
	}
	for name, content := range w.files {
		err := call("Write", map[string]string{"file_path": filepath.Join(src.Dir, name), "content": content}, func() (string, error) {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(src.Dir, name)), 0o755); err != nil {
				return "", err
			}
			return "ok", os.WriteFile(filepath.Join(src.Dir, name), []byte(content), 0o644)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, command := range w.shell {
		err := call("Bash", map[string]string{"command": command}, func() (string, error) {
			cmd := exec.CommandContext(ctx, "sh", "-c", command)
			cmd.Dir = src.Dir
			out, err := cmd.CombinedOutput()
			return string(out), err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
	}
	return tl.EndTurn(ctx, timeline.TurnEnd{Key: begun.Key, Agent: "claude", Source: src, Message: w.answer})
}

// long records 30 turns of an agent, of which some delete files and some are undone, with a fork, a save, a pin and an edit
// outside.
func (d *demo) long() {
	d.Helper()
	const limiter = "package limit\n\n// Limiter limits requests.\ntype Limiter struct{ rate int }\n"
	prompts := []string{
		"add a rate limiter for the API", "make the limiter per route", "test it with two routes", "the test is flaky, find out why",
		"use a clock that the test controls", "write the README section about limits", "rename Limiter to Throttle", "add a config file for the rates",
		"read the config at startup", "fail on unknown keys in the config", "remove the old defaults", "log when a request is refused",
		"add a metrics counter", "show the counter on /debug", "clean up the repository", "what did you delete?", "add a benchmark",
		"make the limiter lock-free", "that is slower, measure it again", "go back to the mutex", "split limiter.go into two files",
		"update the dependencies", "fix the lint warnings", "add a Dockerfile", "make the image smaller", "document the deployment",
		"add a health check", "retry once on a timeout", "write the release notes", "bump the version",
	}
	for i, prompt := range prompts {
		w := work{prompt: prompt, answer: fmt.Sprintf("Done. I changed `limit/limiter.go` and checked it:\n\n- step **%d** of the plan\n- all tests pass", i+1),
			files: map[string]string{"limit/limiter.go": limiter + strings.Repeat(fmt.Sprintf("\n// %s\nfunc step%d() {}\n", prompt, i), 1+i%3)}}
		switch i {
		case 2, 5, 7, 12, 16, 23:
			w.files[fmt.Sprintf("limit/part%d.go", i)] = limiter
			w.files["docs/limits.md"] = fmt.Sprintf("# Limits\n\nVersion %d.\n", i)
		case 14:
			w = work{prompt: prompt, answer: "I removed what nothing uses.", shell: []string{"rm -rf docs limit/part7.go .env", "ls -R"}}
		case 21:
			w.shell = []string{"printf 'module x\\n' > go.mod", "echo ok > go.sum"}
		}
		d.turn(w)
		switch i {
		case 4:
			d.segno("save", "-m", "before the config")
		case 9:
			d.write("mine.txt", "my notes\n")
		case 13:
			d.segno("undo", "2", "-y")
		case 17:
			d.segno("pin", "@", "green")
		case 19:
			d.segno("undo", "-y")
		}
	}
	d.segno("fork", "--to", filepath.Join(d.dir, "another-way"))
	d.segno("undo", "3", "-y")
}
