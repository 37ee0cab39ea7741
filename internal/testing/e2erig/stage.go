package e2erig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// Stage is a real agent that segno records, with its project and its model.
type Stage struct {
	*testing.T
	Ctx     context.Context // ends after the longest time of a scenario
	Rig     *agentrig.Rig
	Version agentrig.ClaudeVersion // "" for another agent
	Model   *fakemodel.Server
	Binary  string // the segno command
	Store   string // its store

	dir      string // contains all of the above
	modelURL string
	screens  []func() string // the screens of the started terminals
}

// sound checks after a test that the store is valid and that no hook failed.
func (s *Stage) sound() {
	if s.Failed() {
		if log, err := os.ReadFile(filepath.Join(s.Store, "hook.log")); err == nil {
			s.Logf("hook.log:\n%s", log)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), time.Minute)
	defer cancel()
	if out, err := s.Command(ctx, "check").CombinedOutput(); err != nil {
		s.Errorf("check: %v\n%s", err, out)
	}
	if log, err := os.ReadFile(filepath.Join(s.Store, "hook.log")); err == nil && len(log) > 0 {
		s.Errorf("hooks failed:\n%s", log)
	}
}

// Command returns the segno command, prepared to run in the project.
func (s *Stage) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Binary, append([]string{"--store", s.Store}, args...)...)
	cmd.Dir, cmd.Env = s.Rig.Project, s.Rig.Env()
	cmd.WaitDelay = 10 * time.Second // a process that it left running keeps its output open
	return cmd
}

// Segno runs the command in the project and returns its output. The test fails if the
// command fails.
func (s *Stage) Segno(args ...string) string {
	s.Helper()
	out, code := s.Try(args...)
	if code != 0 {
		s.Fatalf("segno %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// PinCommand returns a shell command with which an agent pins turn 1.
func (s *Stage) PinCommand() string {
	return fmt.Sprintf("'%s' --store '%s' pin t1 early", s.Binary, s.Store)
}

// WantPinBy checks that the log of operations names the agent whose shell ran [Stage.PinCommand].
func (s *Stage) WantPinBy(agent string) {
	s.Helper()
	for line := range strings.Lines(s.Segno("op", "log")) {
		if strings.Contains(line, "t1 early") && strings.HasSuffix(line, "via "+agent+"\n") {
			return
		}
	}
	s.Errorf("the log of operations has no pin via %s:\n%s", agent, s.Segno("op", "log"))
}

// Try runs the command and returns standard output, with standard error after it
// if it failed, and the exit code.
func (s *Stage) Try(args ...string) (string, int) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	cmd := s.Command(s.Ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return stdout.String() + stderr.String(), exit.ExitCode()
	case err != nil:
		s.Fatal(err)
	}
	return stdout.String(), 0
}

// Checkpoint has the fields of log --json that scenarios read.
type Checkpoint struct {
	ID, Thread, Kind, Agent, Session, Prompt, Snapshot string
	Parent                                             *string
	Turn                                               int
	Head, Tip, Partial, Interrupted, Shared            bool
	Shell                                              int
	Files                                              struct{ Added, Modified, Deleted int }
}

// Checkpoints returns the checkpoints that log --json with args prints, newest first.
func (s *Stage) Checkpoints(args ...string) []Checkpoint {
	s.Helper()
	var cs []Checkpoint
	s.JSON(&cs, append([]string{"log"}, args...)...)
	return cs
}

// JSON runs the command with --json and decodes its output into v.
func (s *Stage) JSON(v any, args ...string) {
	s.Helper()
	out := s.Segno(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		s.Fatalf("segno %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Turns returns the turn checkpoints of a log, oldest first.
func Turns(cs []Checkpoint) (ts []Checkpoint) {
	for _, c := range slices.Backward(cs) {
		if c.Kind == "turn" {
			ts = append(ts, c)
		}
	}
	return ts
}

// Head returns the checkpoint at the head of the newest thread.
func (s *Stage) Head() Checkpoint {
	s.Helper()
	for _, c := range s.Checkpoints() {
		if c.Head {
			return c
		}
	}
	s.Fatal("no checkpoint is the head")
	return Checkpoint{}
}

// Turns returns the turns of the newest thread, or of the thread that args name,
// oldest first.
func (s *Stage) Turns(args ...string) []Checkpoint {
	s.Helper()
	return Turns(s.Checkpoints(args...))
}

// OnOneLine checks that the newest thread has turns with these prompts, by their first word,
// and that each turn's parent is the one before it.
func (s *Stage) OnOneLine(prompts ...string) {
	s.Helper()
	log := s.Checkpoints()
	ts := Turns(log)
	if got := Prompts(ts); !slices.Equal(got, prompts) {
		s.Fatalf("the turns are %q, want %q", got, prompts)
	}
	byID := map[string]Checkpoint{}
	for _, c := range log {
		byID[c.ID] = c
	}
	for i, c := range ts {
		if c.Turn != i+1 || c.Thread != ts[0].Thread {
			s.Errorf("turn %d is %+v", i+1, c)
		}
		above := c
		for above.Parent != nil && (above.ID == c.ID || above.Kind != "turn") {
			above = byID[*above.Parent]
		}
		if i > 0 && above.ID != ts[i-1].ID {
			s.Errorf("t%d hangs from %s t%d, want t%d", c.Turn, above.Kind, above.Turn, i)
		}
	}
}

// Prompts returns the first words of the turns' prompts.
func Prompts(ts []Checkpoint) (words []string) {
	for _, c := range ts {
		word, _, _ := strings.Cut(c.Prompt, " ")
		words = append(words, word)
	}
	return words
}

// Path returns the absolute path of a file in the project.
func (s *Stage) Path(name string) string { return filepath.Join(s.Rig.Project, name) }

// Write writes a file in the project, as a user would.
func (s *Stage) Write(name, content string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(s.Path(name)), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.Path(name), []byte(content), 0o644); err != nil {
		s.Fatal(err)
	}
}

// Tree returns the [Tree] of the project.
func (s *Stage) Tree() string { s.Helper(); return Tree(s.T, s.Rig.Project) }

// Read returns the content of a file of the project.
func (s *Stage) Read(name string) string {
	s.Helper()
	data, err := os.ReadFile(s.Path(name))
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// Exists reports whether the project has a file.
func (s *Stage) Exists(name string) bool {
	_, err := os.Lstat(s.Path(name))
	return err == nil
}

// Tree returns every file below dir with its mode and content, as text for a comparison.
func Tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, de os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fi, err := de.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v", rel, fi.Mode())
		if fi.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
