package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/anthropic"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// realAgent describes a real agent in an experiment.
type realAgent struct {
	kind    string
	program string                              // its name in PATH, or "" if the experiment has its command
	shell   func(command string) map[string]any // a step that runs a command
	make    func(t *testing.T, dir, model string) (rig *agentrig.Rig, command []string)
}

func realAgents() map[string]realAgent {
	bash := func(command string) map[string]any {
		return map[string]any{"tool": "Bash", "input": map[string]any{"command": command, "description": "d"}}
	}
	exec := func(command string) map[string]any {
		return map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": command, "yield_time_ms": 60000}}
	}
	claude := func(v agentrig.ClaudeVersion) func(*testing.T, string, string) (*agentrig.Rig, []string) {
		return func(t *testing.T, dir, model string) (*agentrig.Rig, []string) {
			bin, err := agentrig.Install(t.Context(), v)
			rig, rigErr := agentrig.New(dir, bin, model)
			if err != nil || rigErr != nil {
				t.Fatal(err, rigErr)
			}
			return rig, nil
		}
	}
	codex := func(v agentrig.CodexVersion) func(*testing.T, string, string) (*agentrig.Rig, []string) {
		return func(t *testing.T, dir, model string) (*agentrig.Rig, []string) {
			c, err := agentrig.NewCodex(t.Context(), dir, model, v)
			if err != nil {
				t.Fatal(err)
			}
			return c.Rig, nil
		}
	}
	acp := func(v agentrig.ACPAgent) func(*testing.T, string, string) (*agentrig.Rig, []string) {
		return func(t *testing.T, dir, model string) (*agentrig.Rig, []string) {
			a, err := agentrig.NewACP(t.Context(), dir, model, v)
			if err != nil {
				t.Fatal(err)
			}
			return a.Rig, a.Command
		}
	}
	own := func(t *testing.T, dir, model string) (*agentrig.Rig, []string) {
		rig, err := agentrig.New(dir, "", model)
		if err != nil {
			t.Fatal(err)
		}
		return rig, nil
	}
	execute := func(command string) map[string]any {
		return map[string]any{"tool": "execute", "input": map[string]any{"command": command}}
	}
	return map[string]realAgent{
		"segno":             {"segno", "", execute, own},
		"claude-oldest":     {"claude", "claude", bash, claude(agentrig.ClaudeOldest)},
		"claude-newest":     {"claude", "claude", bash, claude(agentrig.ClaudeNewest)},
		"codex-oldest":      {"codex", "codex", exec, codex(agentrig.CodexOldest)},
		"codex-newest":      {"codex", "codex", exec, codex(agentrig.CodexNewest)},
		"codex-acp-oldest":  {"acp", "", exec, acp(agentrig.CodexACPOldest)},
		"codex-acp-newest":  {"acp", "", exec, acp(agentrig.CodexACPNewest)},
		"claude-acp-oldest": {"acp", "", bash, acp(agentrig.ClaudeACPOldest)},
		"claude-acp-newest": {"acp", "", bash, acp(agentrig.ClaudeACPNewest)},
	}
}

// TestRealAgentsSurviveKills kills the runner during the second turn of a real agent. The turn begins again with the
// same request to the model, byte for byte, and the agent acts only once in each turn. A run tries one agent.
func TestRealAgentsSurviveKills(t *testing.T) {
	if testing.Short() {
		return
	}
	t.Parallel()
	agents := realAgents()
	for _, name := range soak.Some(t, 1, slices.Sorted(maps.Keys(agents))...) {
		real := agents[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real.survive(t)
		})
	}
}

func (real realAgent) survive(t *testing.T) {
	model := fakemodel.New()
	url, stop, err := model.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	rig, command := real.make(t, agentrig.TempDir(t), url)
	x := newExperiment(t, real.experiment(t, rig, command), "0.001")
	if err := os.Remove(filepath.Join(x.dir, "runs/village/key")); err != nil { // the other agents run at the same time
		t.Fatal(err)
	}
	x.use(real, rig)

	first := x.command("generations", "run", x.file, "--json")
	stdout, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	first.Stderr = &stderr
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for line := ""; !strings.Contains(line, `"kind":"checkpoint"`); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%v: %s%s", err, stderr.String(), x.agentLog())
		}
	}
	before := len(model.Calls())
	isSecondTurn := func(r fakemodel.Request) bool { return r.Call() && r.HasText("Your time here is about to end") }
	if _, err := model.WaitFor(t.Context(), isSecondTurn); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	_ = first.Wait() // it was killed
	interrupted := len(model.Calls())
	x.mustRun()

	calls := model.Calls()
	second, resumed := calls[before], calls[interrupted]
	if diff := gocmp.Diff(second.Messages(), resumed.Messages()); diff != "" {
		t.Errorf("the model sees a difference:\n%s", diff)
	}
	if diff := gocmp.Diff(second.System(), resumed.System()); diff != "" {
		t.Errorf("the system prompt has a difference:\n%s", diff)
	}
	x.checkTokens(calls[interrupted:])
	for _, c := range calls {
		if text := strings.ToLower(strings.ReplaceAll(string(c.Body), os.TempDir(), "")); strings.Contains(text, "segno") {
			t.Errorf("the model sees segno in %s", text)
		}
	}
	seen, err := os.ReadFile(filepath.Join(x.dir, "runs/village-g001/agents/Ada/workspace/seen"))
	if err != nil || strings.Count(string(seen), `"acted":true`) != 2 {
		t.Errorf("the agent saw %s, %v\n%s", seen, err, x.agentLog())
	}
}

// checkTokens checks that the chain has the tokens of the prompts that the model got in the last attempt. Four bytes
// count as one token.
func (x *experiment) checkTokens(calls []fakemodel.Request) {
	x.t.Helper()
	want := int64(0)
	for _, c := range calls {
		want += int64(len(c.Body)/4 + 1)
	}
	rows := x.chain("village")
	last := rows[len(rows)-1]
	if last.Status != generation.RowCompleted || last.TokensIn == nil || *last.TokensIn != want || *last.TokensOut < int64(len(calls)) {
		x.t.Errorf("the model read %d tokens in %d calls, and the row is %+v", want, len(calls), last)
	}
}

// experiment returns the file of an experiment with two ticks. The agent acts in each tick by a shell command.
func (real realAgent) experiment(t *testing.T, rig *agentrig.Rig, command []string) string {
	const act = `curl -s -H "X-Session: $WORLD_SESSION" -d '{"do":"pass"}' "$WORLD_URL/act" >> seen`
	steps, err := json.Marshal([]any{real.shell(act), "one", real.shell(act), "two"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range rig.Env() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"HOME", "PATH", "TMPDIR", "CLAUDE_CODE_TMPDIR", "CLAUDE_CONFIG_DIR", "CODEX_HOME"}, name) {
			names = append(names, name)
		}
	}
	text := fmt.Sprintf("world = \"company\"\ngenerations = 1\nticks = 2\nprompt = '''<<fake %s>>'''\n[[agents]]\nname = \"Ada\"\nkind = %q\nhome = %q\nenv = [\"%s\"]\n",
		steps, real.kind, rig.Home, strings.Join(names, `", "`))
	if real.kind == generation.KindSegno {
		text += "model = \"anthropic/claude-sonnet-4-5\"\n"
	}
	if len(command) > 0 {
		text += `command = ["` + strings.Join(command, `", "`) + "\"]\n"
	}
	return text
}

// use lets the agents of the experiment run the program of a rig, with its variables.
func (x *experiment) use(real realAgent, rig *agentrig.Rig) {
	x.t.Helper()
	path := os.Getenv("PATH")
	if real.program != "" {
		bin := x.t.TempDir()
		if err := os.Symlink(rig.Bin, filepath.Join(bin, real.program)); err != nil {
			x.t.Fatal(err)
		}
		path = bin + ":" + path
	}
	for _, v := range rig.Env() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"HOME", "PATH", "TMPDIR"}, name) {
			x.env = append(x.env, v)
		}
	}
	x.env = append(x.env, "PATH="+strings.Join(append(slices.Clone(rig.Path), path), ":"))
}

// agentLog returns the output of the experiment's agent.
func (x *experiment) agentLog() string {
	found, _ := filepath.Glob(filepath.Join(x.dir, "runs/*/agents/*/agent.log"))
	var all []byte
	for _, path := range found {
		data, _ := os.ReadFile(path)
		all = append(all, data...)
	}
	return string(all)
}

func newAnthropicModel(model string, getenv func(string) string) (agent.Model, error) {
	return anthropic.New(model, anthropic.Options{Key: getenv("ANTHROPIC_API_KEY"), BaseURL: getenv("ANTHROPIC_BASE_URL")}), nil
}

// acpAgentMain is an agent that speaks the Agent Client Protocol, and keeps its sessions in a place that segno does not
// know.
func acpAgentMain() {
	config := acptest.Config{Dir: filepath.Join(os.Getenv("HOME"), "private"), Resume: true, Load: true}
	config.Requests = filepath.Join(os.Getenv("HOME"), "../workspace/requests")
	if err := acptest.Agent(context.Background(), config, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestUnknownAgentSurvivesKills kills the runner of an agent whose sessions are not in the checkpoint. The agent
// continues in a new session, with a record of its turns until the checkpoint.
func TestUnknownAgentSurvivesKills(t *testing.T) {
	t.Parallel()
	did := acptest.Step{Tool: "ledger", Line: "one", File: "seen"}
	x := newExperiment(t, "world = \"company\"\ngenerations = 1\nticks = 4\nprompt = '''"+acptest.Directive(did)+"'''\n"+
		"[[agents]]\nname = \"Ada\"\nkind = \"acp\"\ncommand = [\"acpagent\"]\n", "0.001")
	first := x.command("generations", "run", x.file, "--json")
	stdout, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for line := ""; !strings.Contains(line, `"kind":"checkpoint"`); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%v: %s", err, x.agentLog())
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	_ = first.Wait()                                                                                // it was killed
	if err := os.RemoveAll(filepath.Join(x.dir, "runs/village-g001/agents/Ada/home")); err != nil { // as on another machine
		t.Fatal(err)
	}
	x.mustRun()
	workspace := filepath.Join(x.dir, "runs/village-g001/agents/Ada/workspace")
	seen, err := os.ReadFile(filepath.Join(workspace, "seen"))
	if err != nil || string(seen) != "one\n" {
		t.Errorf("the agent did %q, %v", seen, err)
	}
	requests, err := os.ReadFile(filepath.Join(workspace, "requests"))
	if err != nil || !strings.Contains(string(requests), "record of the conversation so far") {
		t.Errorf("the model saw %s, %v", requests, err)
	}
	found, err := filepath.Glob(filepath.Join(x.dir, "runs/village-g001/checkpoints/*"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	r, err := archive.Open(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if a := r.Manifest().Agents[0]; a.SessionFormat != "segno-log-v1" || len(r.Manifest().Tree("Ada", archive.Session)) != 1 {
		t.Errorf("the archive has %+v", a)
	}
}
