package agents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// TestPauseOfClaudeCode pauses an experiment in the middle of a turn, and wakes it on another machine: with another
// home, another store and other paths. The model receives the continued conversation, and the archive has no login.
func TestPauseOfClaudeCode(t *testing.T) {
	t.Parallel()
	claude, err := agentrig.Install(t.Context(), agentrig.ClaudeNewest)
	if err != nil {
		t.Fatal(err)
	}
	model := fakemodel.New()
	url, stop, err := model.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	here, there := newMachine(t, claude, url, 100), newMachine(t, claude, url, 200)
	run := here.command("generations", "run", "village.toml")
	run.Env = append(run.Env, "CHECKPOINT_EVERY=0")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	here.await("runs/village-g001/agents/Ada/workspace/notes.txt", "turn 1\n")
	var paused struct{ Checkpoint string }
	if err := json.Unmarshal(here.mustRun("generations", "pause", "village", "--grace", "0s", "--json"), &paused); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // it was stopped
	here.checkArchive(paused.Checkpoint)
	calls := len(model.Calls())

	there.mustRun("generations", "wake", paused.Checkpoint, "--experiment", "village.toml", "--trust-session")
	notes, err := os.ReadFile(filepath.Join(there.dir, "runs/village-g001/agents/Ada/workspace/notes.txt"))
	if want := "turn 1\nturn 2\n"; string(notes) != want || err != nil {
		t.Errorf("the agent wrote %q, %v", notes, err)
	}
	first := model.Calls()[calls]
	if !e2erig.Said(first, "live <<fake") || !e2erig.Said(first, "Continue: observe the world") {
		t.Errorf("the first call elsewhere is %+v", e2erig.Conversation(first))
	}
	data, err := os.ReadFile(filepath.Join(there.dir, "runs/village-g001/agents/Ada/home/.claude/.credentials.json"))
	if !bytes.Contains(data, []byte(there.token)) || bytes.Contains(data, []byte(here.token)) || err != nil {
		t.Errorf("the login elsewhere is %s, %v", data, err)
	}
}

// machine is an installation with Claude Code, a login and the file of an experiment.
type machine struct {
	*testing.T
	dir, token string
	env        []string
}

func newMachine(t *testing.T, claude, url string, expires int) *machine {
	dir, err := filepath.EvalSymlinks(agentrig.TempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	rig, err := agentrig.New(dir, claude, url)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(claude, filepath.Join(bin, "claude")); err != nil {
		t.Fatal(err)
	}
	m := &machine{T: t, dir: dir, token: fmt.Sprintf("a-login-that-expires-at-%d", expires)}
	steps, err := json.Marshal([]any{e2erig.Bash("echo turn 1 >> notes.txt; sleep 1000"), "done 1", e2erig.Bash("echo turn 2 >> notes.txt"), "done 2"})
	if err != nil {
		t.Fatal(err)
	}
	login := fmt.Sprintf(`{"mcpOAuth":{"notes|1":{"serverName":"notes","accessToken":%q,"expiresAt":%d}}}`, m.token, expires)
	for name, text := range map[string]string{
		filepath.Join(rig.Config, ".credentials.json"): login,
		filepath.Join(dir, "village.toml"): `world = "grid"
generations = 1
ticks = 2
[[agents]]
name = "Ada"
kind = "claude"
env = ["DISABLE_TELEMETRY", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]
prompt = '''live <<fake ` + string(steps) + `>>'''
`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.env = slices.DeleteFunc(rig.Env(), func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	m.env = append(m.env, "PATH="+bin+":"+os.Getenv("PATH"), "XDG_DATA_HOME="+filepath.Join(dir, "data"))
	return m
}

func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.Context(), "segno", args...)
	cmd.Dir, cmd.Env = m.dir, m.env
	return cmd
}

func (m *machine) mustRun(args ...string) []byte {
	m.Helper()
	var stderr bytes.Buffer
	cmd := m.command(args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		m.Fatalf("%v\n%s\n%s", err, out, &stderr)
	}
	return out
}

// await waits until a file has a text. A file exists before the shell that makes it has written.
func (m *machine) await(name, text string) {
	m.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-tick.C {
		if data, err := os.ReadFile(filepath.Join(m.dir, name)); err == nil && string(data) == text {
			return
		}
	}
	m.Fatalf("%s does not have %q", name, text)
}

// checkArchive checks that an archive has the conversation, and does not have the login in any form.
func (m *machine) checkArchive(path string) {
	m.Helper()
	r, err := archive.Open(path)
	if err != nil {
		m.Fatal(err)
	}
	defer r.Close()
	if c := r.Manifest().Cut.Consistency; c != archive.Barrier {
		m.Errorf("the moment is %s", c)
	}
	var all bytes.Buffer
	for _, e := range r.Manifest().Entries {
		if err := r.ReadFile(e.Path, &all); err != nil {
			m.Fatal(err)
		}
	}
	if !bytes.Contains(all.Bytes(), []byte("live <<fake")) {
		m.Error("the archive has no conversation")
	}
	data, err := os.ReadFile(path)
	for _, secret := range []string{m.token, ".credentials.json", "sk-ant"} {
		if err != nil || bytes.Contains(all.Bytes(), []byte(secret)) || bytes.Contains(data, []byte(secret)) {
			m.Errorf("the archive contains %q, %v", secret, err)
		}
	}
}
