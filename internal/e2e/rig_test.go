package e2e_test

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

	"github.com/dalsegno/segno/internal/acp/acptest"
	"github.com/dalsegno/segno/internal/agentrig"
	_ "github.com/dalsegno/segno/internal/cli" // a changed command makes results of these tests stale
	"github.com/dalsegno/segno/internal/fakemodel"
)

// binary is the segno command under test, built once; segno-hook is beside it.
var binary string

func TestMain(m *testing.M) {
	if code, ran := acptest.Main(context.Background(), os.Args[1:], acptest.Standard()); ran {
		os.Exit(code)
	}
	dir, err := os.MkdirTemp("", "segno-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "segno")
	build := exec.Command("go", "build", "-o", dir+"/", "../../cmd/segno", "../../cmd/segno-hook")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build segno: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// stage is a real agent with segno enabled, its project, and the model it talks to.
type stage struct {
	*testing.T
	ctx   context.Context
	rig   *agentrig.Rig
	model *fakemodel.Server
	store string
}

// newStage sets the stage: files are what the project holds before segno sees it.
func newStage(t *testing.T, files map[string]string) *stage {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	bin, err := agentrig.Install(ctx)
	if err != nil {
		t.Fatal(err)
	}
	model := fakemodel.New()
	url, stop, err := model.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	dir := t.TempDir()
	rig, err := agentrig.New(dir, bin, url)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, ctx: ctx, rig: rig, model: model, store: filepath.Join(dir, "store")}
	for name, content := range files {
		s.write(name, content)
	}
	s.segno("enable", "claude")
	t.Cleanup(s.sound)
	return s
}

// sound checks the store after every test, and that no hook failed in it.
func (s *stage) sound() {
	if s.Failed() {
		if log, err := os.ReadFile(filepath.Join(s.store, "hook.log")); err == nil {
			s.Logf("hook.log:\n%s", log)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()
	if out, err := s.command(ctx, "check").CombinedOutput(); err != nil {
		s.Errorf("check: %v\n%s", err, out)
	}
	if log, err := os.ReadFile(filepath.Join(s.store, "hook.log")); err == nil && len(log) > 0 {
		s.Errorf("hooks failed:\n%s", log)
	}
}

func (s *stage) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, append([]string{"--store", s.store}, args...)...)
	cmd.Dir, cmd.Env = s.rig.Project, s.rig.Env()
	return cmd
}

// segno runs the command in the project and returns what it printed.
func (s *stage) segno(args ...string) string {
	s.Helper()
	out, code := s.try(args...)
	if code != 0 {
		s.Fatalf("segno %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// try runs the command and returns standard output, with standard error after it
// if it failed, and the exit code.
func (s *stage) try(args ...string) (string, int) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	cmd := s.command(s.ctx, args...)
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

// checkpoint is what the tests read of log --json.
type checkpoint struct {
	ID, Thread, Kind, Agent, Session, Prompt, Snapshot string
	Parent                                             *string
	Turn                                               int
	Head, Tip, Partial, Interrupted, Shared            bool
	Shell                                              int
	Files                                              struct{ Added, Modified, Deleted int }
}

func (s *stage) log(args ...string) []checkpoint {
	s.Helper()
	var cs []checkpoint
	s.json(&cs, append([]string{"log"}, args...)...)
	return cs
}

func (s *stage) json(v any, args ...string) {
	s.Helper()
	out := s.segno(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		s.Fatalf("segno %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// turns returns the turn checkpoints of a log, oldest first.
func turns(cs []checkpoint) (ts []checkpoint) {
	for _, c := range slices.Backward(cs) {
		if c.Kind == "turn" {
			ts = append(ts, c)
		}
	}
	return ts
}

func (s *stage) head() checkpoint {
	s.Helper()
	for _, c := range s.log() {
		if c.Head {
			return c
		}
	}
	s.Fatal("the thread stands nowhere")
	return checkpoint{}
}

func (s *stage) path(name string) string { return filepath.Join(s.rig.Project, name) }

func (s *stage) write(name, content string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(content), 0o644); err != nil {
		s.Fatal(err)
	}
}

// tree is every file below dir with its mode and content, as text to compare.
func tree(t *testing.T, dir string) string {
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

func (s *stage) tree() string { s.Helper(); return tree(s.T, s.rig.Project) }

// prompt is text with a script for the model in it.
func prompt(text string, steps ...any) string {
	data, err := json.Marshal(steps)
	if err != nil {
		panic(err) // the steps are the test's own literals
	}
	return text + " <<fake " + string(data) + ">>"
}

func bash(command string) map[string]any {
	return map[string]any{"tool": "Bash", "input": map[string]string{"command": command, "description": "d"}}
}

func (s *stage) writes(name, content string) map[string]any {
	return map[string]any{"tool": "Write", "input": map[string]string{"file_path": s.path(name), "content": content}}
}

// say runs one print-mode turn and returns its session.
func (s *stage) say(text string, args ...string) string {
	s.Helper()
	res, err := s.rig.Print(s.ctx, text, args...)
	if err != nil {
		s.Fatal(err)
	}
	out, err := res.Must()
	if err != nil {
		s.Fatal(err)
	}
	return out.SessionID
}

// lastCall is the newest model call.
func (s *stage) lastCall() fakemodel.Request {
	s.Helper()
	calls := s.model.Calls()
	if len(calls) == 0 {
		s.Fatal("the model was not called")
	}
	return calls[len(calls)-1]
}

// callFor is the first model call whose conversation holds text.
func (s *stage) callFor(text string) fakemodel.Request {
	s.Helper()
	for _, c := range s.model.Calls() {
		if c.HasText(text) {
			return c
		}
	}
	s.Fatalf("the model was never sent %q", text)
	return fakemodel.Request{}
}

// transcripts returns every session file of the agent, by path.
func (s *stage) transcripts() map[string]string {
	s.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(s.rig.Config, "projects", "*", "*.jsonl"))
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			s.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}
