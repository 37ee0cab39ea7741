package agents_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestANewAgentIsADirectoryAndALine builds segno with an agent that the repository does not have: its directory, and
// its line in list.go. It then enables the agent's hooks, replays a recorded session through the registered commands,
// and undoes the turn.
func TestANewAgentIsADirectoryAndALine(t *testing.T) {
	if !soak.IsWhole() {
		return // it compiles nearly all of segno
	}
	s := buildWithToy(t)
	if out := s.run("enable", "toy"); !strings.Contains(out, "the hooks work") {
		t.Fatalf("segno enable toy printed:\n%s", out)
	}
	s.write("drawing", "before")
	s.write("notes", "before")
	s.replay()
	if out := s.run("log"); !strings.Contains(out, "scribble something") {
		t.Errorf("the log has no turn of the toy:\n%s", out)
	}
	s.run("undo", "-y")
	for name, want := range map[string]string{"drawing": "before", "notes": "by the user"} {
		if data, err := os.ReadFile(filepath.Join(s.project, name)); err != nil || string(data) != want {
			t.Errorf("after the undo, %s is %q (%v), want %q", name, data, err, want)
		}
	}
}

// toySession is a project in which the toy works.
type toySession struct {
	*testing.T
	segno, home, project string
}

// buildWithToy builds the commands. The overlay adds the directory and the line without a change of the repository.
func buildWithToy(t *testing.T) *toySession {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("list.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(list), "\tsegno.Profile(),\n", "\tsegno.Profile(),\n\ttoy.Profile(),\n", 1)
	text = strings.Replace(text, "agents/segno\"\n", "agents/segno\"\n\t\"github.com/dalsegno/segno/agents/toy\"\n", 1)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "list.go"):       filepath.Join(dir, "list.go"),
		filepath.Join(here, "toy", "toy.go"): filepath.Join(here, "testdata", "toy", "toy.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"list.go": []byte(text), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "bin")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin+"/",
		"github.com/dalsegno/segno/cmd/segno", "github.com/dalsegno/segno/cmd/segno-hook")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := &toySession{t, filepath.Join(bin, "segno"), filepath.Join(dir, "home"), filepath.Join(dir, "home", "project")}
	if err := os.MkdirAll(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// command returns a command that runs in the project. Its home is that of the test.
func (s *toySession) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.Context(), name, args...)
	cmd.Dir = s.project
	cmd.Env = []string{"HOME=" + s.home, "TOY_HOME=" + filepath.Join(s.home, "toy"), "PATH=" + os.Getenv("PATH")}
	return cmd
}

func (s *toySession) run(args ...string) string {
	s.Helper()
	out, err := s.command(s.segno, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("segno %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (s *toySession) write(name, content string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.project, name), []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

// replay runs the command that the toy's settings name for each event of the recorded session. The toy writes a file in
// its first call. The user writes one during the second call, which only reads.
func (s *toySession) replay() {
	s.Helper()
	settings, err := os.ReadFile(filepath.Join(s.home, "toy", "settings.json"))
	if err != nil {
		s.Fatal(err)
	}
	var registered struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Command string `json:"command"`
			} `json:"hooks"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(settings, &registered); err != nil {
		s.Fatal(err)
	}
	session, err := os.Open(filepath.Join("testdata", "toy", "session.jsonl"))
	if err != nil {
		s.Fatal(err)
	}
	defer session.Close()
	for lines := bufio.NewScanner(session); lines.Scan(); {
		line := strings.ReplaceAll(lines.Text(), "PROJECT", s.project)
		var e struct {
			Name string `json:"hook_event_name"`
			Tool string `json:"tool_name"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.Fatal(err)
		}
		switch e.Name + " " + e.Tool {
		case "Called scribble":
			s.write("drawing", "by the toy")
		case "Called peek":
			s.waitForClock()
			s.write("notes", "by the user")
			s.waitForClock()
		}
		cmd := s.command("sh", "-c", registered.Hooks[e.Name][0].Hooks[0].Command)
		cmd.Stdin = strings.NewReader(line)
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Fatalf("%s: %v\n%s", e.Name, err, out)
		}
	}
}

// waitForClock waits until the clock of the file system has advanced by more than its largest grain.
func (s *toySession) waitForClock() {
	s.Helper()
	name := filepath.Join(s.TempDir(), "clock")
	for from := time.Now(); ; {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			s.Fatal(err)
		}
		if fi, err := os.Stat(name); err != nil {
			s.Fatal(err)
		} else if fi.ModTime().Sub(from) > 20*time.Millisecond {
			return
		}
	}
}
