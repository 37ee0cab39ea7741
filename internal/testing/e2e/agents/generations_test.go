package agents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestGenerationsOfRealAgents kills the runner of an experiment with Claude Code and Codex. Both continue the
// conversations of the newest checkpoint, and do nothing twice.
func TestGenerationsOfRealAgents(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	model := fakemodel.New()
	url, stop, err := model.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	x := newVillage(t, url)
	x.killAfter(`"tick":2`)
	if out, err := x.command().CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, agent := range []string{"Ada", "Bo"} {
		notes, err := os.ReadFile(filepath.Join(x.dir, "runs/village-g001/agents", agent, "workspace/notes.txt"))
		if want := "turn 1\nturn 2\nturn 3\n"; string(notes) != want || err != nil {
			t.Errorf("%s wrote %q, %v", agent, notes, err)
		}
	}
	r, err := archive.Open(filepath.Join(x.dir, "runs/village-g001/checkpoints/gen001-t000003.ckpt"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, a := range r.Manifest().Agents {
		if a.SessionFormat == "" || a.SessionID == "" {
			t.Errorf("the checkpoint has no conversation of %+v", a)
		}
	}
	x.checkConversations()
}

// village is an experiment with both agents.
type village struct {
	*testing.T
	dir string
	env []string
}

func newVillage(t *testing.T, url string) *village {
	dir, err := filepath.EvalSymlinks(agentrig.TempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	claude, err := agentrig.Install(t.Context(), agentrig.ClaudeNewest)
	if err != nil {
		t.Fatal(err)
	}
	codex, err := agentrig.NewCodex(t.Context(), agentrig.TempDir(t), url, agentrig.CodexNewest)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, to := range map[string]string{"claude": claude, "codex": codex.Bin} {
		if err := os.Symlink(to, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	text := `world = "grid"
generations = 1
ticks = 3
[[agents]]
name = "Ada"
kind = "claude"
env = ["DISABLE_TELEMETRY"]
prompt = '''` + script("Bash", "command") + `'''
[[agents]]
name = "Bo"
kind = "codex"
home = ` + fmt.Sprintf("%q", codex.Home) + `
env = ["FAKE_API_KEY"]
prompt = '''` + script("exec_command", "cmd") + `'''
`
	if err := os.WriteFile(filepath.Join(dir, "village.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	codex.Vars["ANTHROPIC_BASE_URL"] = url
	env := slices.DeleteFunc(codex.Env(), func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	env = append(env, "PATH="+bin+":"+os.Getenv("PATH"), "XDG_DATA_HOME="+filepath.Join(dir, "data"), "CHECKPOINT_EVERY=0.001")
	return &village{t, dir, env}
}

// script returns a prompt with three turns, each with one command. It begins like a list, which no agent may take for a flag.
func script(tool, argument string) string {
	var steps []any
	for turn := 1; turn <= 3; turn++ {
		command := fmt.Sprintf("curl -s -H \"X-Session: $WORLD_SESSION\" $WORLD_URL/observe >/dev/null && echo turn %d >> notes.txt", turn)
		steps = append(steps, map[string]any{"tool": tool, "input": map[string]any{argument: command}}, fmt.Sprintf("done %d", turn))
	}
	data, err := json.Marshal(steps)
	if err != nil {
		panic(err)
	}
	return "- live <<fake " + string(data) + ">>"
}

func (x *village) command() *exec.Cmd {
	cmd := exec.CommandContext(x.Context(), "segno", "generations", "run", "village.toml", "--json")
	cmd.Dir, cmd.Env = x.dir, x.env
	return cmd
}

// killAfter runs the experiment, and kills the runner after it has printed a text.
func (x *village) killAfter(text string) {
	x.Helper()
	cmd := x.command()
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		x.Fatal(err)
	}
	var seen bytes.Buffer
	for part := make([]byte, 1024); !strings.Contains(seen.String(), text); {
		n, err := stdout.Read(part)
		seen.Write(part[:n])
		if err != nil {
			_ = cmd.Wait()
			logs, _ := filepath.Glob(filepath.Join(x.dir, "runs/*/agents/*/agent.log"))
			for _, log := range logs {
				data, _ := os.ReadFile(log)
				x.Logf("%s\n%s", log, data)
			}
			x.Fatalf("the runner ended before %s: %v\n%s", text, err, seen.String())
		}
	}
	<-time.After(300 * time.Millisecond) // within the next turns
	if err := cmd.Process.Kill(); err != nil {
		x.Error(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	_ = cmd.Wait() // the runner was killed
}

// checkConversations checks that each conversation has each turn, and no text of segno.
func (x *village) checkConversations() {
	x.Helper()
	found := 0
	for _, pattern := range []string{"home/.claude/projects/*/*.jsonl", "home/.codex/sessions/*/*/*/*.jsonl"} {
		paths, _ := filepath.Glob(filepath.Join(x.dir, "runs/village-g001/agents/*", pattern))
		for _, path := range paths {
			found++
			data, err := os.ReadFile(path)
			if err != nil {
				x.Fatal(err)
			}
			text := string(data)
			for turn := 1; turn <= 3; turn++ {
				if done := fmt.Sprintf(`"done %d"`, turn); !strings.Contains(text, done) {
					x.Errorf("%s does not have %s", path, done)
				}
			}
			if at := strings.Index(strings.ToLower(text), "segno"); at >= 0 {
				x.Errorf("%s mentions segno: %s", path, text[max(0, at-100):min(len(text), at+100)])
			}
		}
	}
	if found != 2 {
		x.Errorf("%d conversations, want 2", found)
	}
}
