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
	s.replay(filepath.Join("testdata", "toy", "session.jsonl"), filepath.Join(s.home, "toy", "settings.json"), map[string]func(){
		"Called scribble": func() { s.write("drawing", "by the toy") },
		"Called peek":     func() { s.writeApart("notes", "by the user") },
	})
	if out := s.run("log"); !strings.Contains(out, "scribble something") {
		t.Errorf("the log has no turn of the toy:\n%s", out)
	}
	s.run("undo", "-y")
	s.wantFiles(map[string]string{"drawing": "before", "notes": "by the user"})
}

// agentSession is a project in which an agent works.
type agentSession struct {
	*testing.T
	segno, home, project string
}

// buildWithToy builds the commands. The overlay adds the directory and the line without a change of the repository.
func buildWithToy(t *testing.T) *agentSession {
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
	s := newSession(t, build(t, "-overlay", filepath.Join(dir, "overlay.json")))
	return s
}

// build builds the commands and returns their directory.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	args := append([]string{"build"}, flags...)
	args = append(args, "-o", bin+"/", "github.com/dalsegno/segno/cmd/segno", "github.com/dalsegno/segno/cmd/segno-hook")
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// newSession returns a project in a new home. bin has the commands.
func newSession(t *testing.T, bin string) *agentSession {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &agentSession{t, filepath.Join(bin, "segno"), filepath.Join(dir, "home"), filepath.Join(dir, "home", "project")}
	if err := os.MkdirAll(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// command returns a command that runs in the project. Its home is that of the test.
func (s *agentSession) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.Context(), name, args...)
	cmd.Dir = s.project
	cmd.Env = []string{"HOME=" + s.home, "TOY_HOME=" + filepath.Join(s.home, "toy"), "PATH=" + os.Getenv("PATH")}
	return cmd
}

func (s *agentSession) run(args ...string) string {
	s.Helper()
	out, err := s.command(s.segno, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("segno %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (s *agentSession) write(name, content string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.project, name), []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

// wantFiles compares files of the project. For the content "", the file must not exist.
func (s *agentSession) wantFiles(want map[string]string) {
	s.Helper()
	for name, content := range want {
		data, err := os.ReadFile(filepath.Join(s.project, name))
		if string(data) != content || os.IsNotExist(err) != (content == "") {
			s.Errorf("%s is %q (%v), want %q", name, data, err, content)
		}
	}
}

// writeApart writes a file at a time that is not that of another write.
func (s *agentSession) writeApart(name, content string) {
	s.Helper()
	s.waitForClock()
	s.write(name, content)
	s.waitForClock()
}

// replay runs the command that the settings name for each event of a recorded session. Before an event it runs the
// function of "EVENT TOOL".
func (s *agentSession) replay(recorded, settingsFile string, before map[string]func()) {
	s.Helper()
	settings, err := os.ReadFile(settingsFile)
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
	session, err := os.Open(recorded)
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
		if do := before[e.Name+" "+e.Tool]; do != nil {
			do()
		}
		cmd := s.command("sh", "-c", registered.Hooks[e.Name][0].Hooks[0].Command)
		cmd.Stdin = strings.NewReader(line)
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Fatalf("%s: %v\n%s", e.Name, err, out)
		}
	}
}

// waitForClock waits until the clock of the file system has advanced by more than its largest grain.
func (s *agentSession) waitForClock() {
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
