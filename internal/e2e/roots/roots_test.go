// Package roots_test runs the real agent in subdirectories and in places that cannot be
// recorded.
package roots_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/agentrig"
	_ "github.com/dalsegno/segno/internal/cli" // a changed command makes results of these tests stale
	"github.com/dalsegno/segno/internal/fakemodel"
)

// binary is the segno command under test, built once; segno-hook is beside it.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "segno-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "segno")
	build := exec.Command("go", "build", "-o", dir+"/", "../../../cmd/segno", "../../../cmd/segno-hook")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build segno: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// ground is a real agent with segno enabled, and a repository to work in.
type ground struct {
	*testing.T
	ctx         context.Context
	rig         *agentrig.Rig
	model       *fakemodel.Server
	repo, store string
}

func newGround(t *testing.T) *ground {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rig, err := agentrig.New(dir, bin, url)
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{T: t, ctx: ctx, rig: rig, model: model, repo: filepath.Join(dir, "repo"), store: filepath.Join(dir, "store")}
	for name, content := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "", "top.txt": "0\n", "gone.txt": "0\n", "sub/deep/f": "0\n"} {
		name = filepath.Join(g.repo, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g.segno(rig.Home, "enable", "claude") // there is nothing to record there
	return g
}

// segno runs the command in a directory and returns what it printed.
func (g *ground) segno(dir string, args ...string) string {
	g.Helper()
	cmd := exec.CommandContext(g.ctx, binary, append([]string{"--store", g.store}, args...)...)
	cmd.Dir, cmd.Env = dir, g.rig.Env()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		g.Fatalf("segno %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// say runs one turn of the agent in a directory and returns its result.
func (g *ground) say(dir, text string, steps []any, args ...string) agentrig.Result {
	g.Helper()
	rig, err := g.rig.In(dir)
	if err != nil {
		g.Fatal(err)
	}
	data, err := json.Marshal(steps)
	if err != nil {
		g.Fatal(err)
	}
	res, err := rig.Print(g.ctx, text+" <<fake "+string(data)+">>", args...)
	if err != nil {
		g.Fatal(err)
	}
	return res
}

func (g *ground) session(res agentrig.Result) string {
	g.Helper()
	out, err := res.Must()
	if err != nil {
		g.Fatal(err)
	}
	return out.SessionID
}

func (g *ground) holds(name, want string) {
	g.Helper()
	if got, err := os.ReadFile(filepath.Join(g.repo, name)); err != nil || string(got) != want {
		g.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

func bash(command string) map[string]any {
	return map[string]any{"tool": "Bash", "input": map[string]string{"command": command, "description": "d"}}
}

func write(path, content string) map[string]any {
	return map[string]any{"tool": "Write", "input": map[string]string{"file_path": path, "content": content}}
}

// TestASessionInASubdirectory works above the directory it was started in, by a tool and
// by the shell. All of it is undone, and the conversation continues in the same
// subdirectory, there and in a fork.
func TestASessionInASubdirectory(t *testing.T) {
	g := newGround(t)
	sub := filepath.Join(g.repo, "sub", "deep")
	session := g.session(g.say(sub, "first", []any{write(filepath.Join(g.repo, "new.txt"), "tool\n"), bash("cd ../.. && echo 1 > top.txt && rm gone.txt"), "done 1"}))
	g.say(sub, "second", []any{bash("echo 2 > ../../top.txt; echo 2 > f"), "done 2"}, "--resume", session)

	var moved struct {
		Session string
		Command []string
		Dir     string `json:"session_dir"`
	}
	out := g.segno(sub, "undo", "-y", "--json")
	if err := json.Unmarshal([]byte(out), &moved); err != nil {
		t.Fatal(err)
	}
	g.holds("top.txt", "1\n")
	g.holds("sub/deep/f", "0\n")
	if moved.Dir != sub {
		t.Errorf("the conversation continues in %s, want %s", moved.Dir, sub)
	}
	g.session(g.say(moved.Dir, "third", []any{bash("echo 3 > ../../top.txt"), "done 3"}, moved.Command[1:]...))
	if last := g.model.Calls(); !last[len(last)-1].HasText("first") || last[len(last)-1].HasText("second") {
		t.Error("the agent did not continue after the first turn")
	}

	var fork struct {
		Dir     string
		Command []string
		In      string `json:"session_dir"`
	}
	out = g.segno(g.repo, "fork", "t1", "--to", "../fork", "--json")
	if err := json.Unmarshal([]byte(out), &fork); err != nil {
		t.Fatal(err)
	}
	if fork.In != filepath.Join(fork.Dir, "sub", "deep") {
		t.Errorf("the fork's session runs in %s", fork.In)
	}
	g.session(g.say(fork.In, "in the fork", []any{bash("echo fork > ../../top.txt"), "forked"}, fork.Command[1:]...))
	if last := g.model.Calls(); !last[len(last)-1].HasText("done 1") {
		t.Error("the fork's agent does not know the first turn")
	}
	g.segno(fork.In, "undo", "-y")
	if got, err := os.ReadFile(filepath.Join(fork.Dir, "top.txt")); err != nil || string(got) != "1\n" {
		t.Errorf("in the fork top.txt holds %q, %v", got, err)
	}

	g.segno(g.repo, "undo", "2", "-y")
	g.holds("top.txt", "0\n")
	g.holds("gone.txt", "0\n")
	if _, err := os.Stat(filepath.Join(g.repo, "new.txt")); !os.IsNotExist(err) {
		t.Errorf("what a tool wrote above the subdirectory is still there: %v", err)
	}
	g.segno(g.repo, "check")
}

// TestASessionThatCannotBeRecorded starts the agent in its home directory: it works, and
// shows its user why nothing is recorded.
func TestASessionThatCannotBeRecorded(t *testing.T) {
	g := newGround(t)
	res := g.say(g.rig.Home, "at home", []any{bash("echo 1 > made"), "done"}, "--output-format", "stream-json", "--verbose")
	if res.Code != 0 || !strings.Contains(res.Stdout, "done") {
		t.Errorf("the agent ended with %d: %s %s", res.Code, res.Stdout, res.Stderr)
	}
	told := 0
	for _, line := range strings.Split(res.Stdout, "\n") {
		if strings.Contains(line, "this session is not recorded") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the agent was told %d times: %s", told, res.Stdout)
	}
	cmd := exec.CommandContext(g.ctx, binary, "--store", g.store, "doctor")
	cmd.Dir, cmd.Env = g.repo, g.rig.Env()
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "was not recorded") {
		t.Errorf("doctor: %v: %s", err, out)
	}
}
