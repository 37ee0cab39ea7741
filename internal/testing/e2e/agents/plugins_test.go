package agents_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestPlugins installs the plugins that 'segno plugin' writes in the real agents, and lets the agents call the tools of
// 'segno mcp'. It tries one agent, chosen by the seed, or all under SEGNO_SOAK.
func TestPlugins(t *testing.T) {
	t.Parallel()
	agents := []string{"claude", "codex", "gemini"}
	tests := map[string]func(*testing.T){"claude": pluginOfClaude, "codex": pluginOfCodex, "gemini": pluginOfGemini}
	at := int(soak.Seed(t) % uint64(len(agents)))
	agents[0], agents[at] = agents[at], agents[0]
	for _, name := range e2erig.Cases(t, agents[:1], agents[1:]...) {
		t.Run(name, tests[name])
	}
}

var pluginFiles = map[string]string{"a.txt": "0\n"}

// runAgent runs a command of the agent, and returns its output.
func runAgent(s *e2erig.Stage, args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Ctx, s.Rig.Bin, args...)
	cmd.Dir, cmd.Env = s.Rig.Project, s.Rig.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// writePlugin writes the plugin of an agent, and returns its directory.
func writePlugin(s *e2erig.Stage, agent string) string {
	s.Helper()
	dir := filepath.Join(s.TempDir(), "plugin")
	s.Segno("plugin", dir, "--agent", agent)
	return dir
}

// tool is a step in which the agent calls a tool of the plugin.
func tool(name string, input map[string]any) map[string]any {
	return map[string]any{"tool": name, "input": input}
}

// wantUndone checks that the move that the last turn requested was made once, when the turn ended.
func wantUndone(s *e2erig.Stage, actor string) {
	s.Helper()
	var ops []struct{ Verb, Actor string }
	s.JSON(&ops, "op", "log")
	if s.Read("a.txt") != "1\n" || len(ops) != 1 || ops[0].Verb != "undo" || ops[0].Actor != actor {
		s.Errorf("a.txt is %q, the log has %+v\n%s", s.Read("a.txt"), ops, s.Segno("status"))
	}
	var results string
	for _, m := range s.LastCall().Messages() {
		for _, b := range m.Blocks {
			if b.Type == "tool_result" {
				results += b.Text + "\n"
			}
		}
	}
	for _, want := range []string{"REQUESTED", "undo t2", "beta"} {
		if !strings.Contains(results, want) {
			s.Errorf("the model did not get %q:\n%s", want, results)
		}
	}
}

func pluginOfClaude(t *testing.T) {
	e2erig.Scenario(t, pluginFiles, func(s *e2erig.Stage) {
		dir := writePlugin(s, "claude")
		runAgent(s, "plugin", "marketplace", "add", dir)
		runAgent(s, "plugin", "install", "segno@segno")
		if out := runAgent(s, "plugin", "list"); !strings.Contains(out, "segno@segno") {
			s.Errorf("plugin list:\n%s", out)
		}
		session := s.Say(e2erig.Prompt("alpha", e2erig.Bash("echo 1 > a.txt"), "done"))
		s.Say(e2erig.Prompt("beta", e2erig.Bash("echo 2 > a.txt"), "done"), "--resume", session)
		const prefix = "mcp__plugin_segno_segno__"
		s.Say(e2erig.Prompt("/segno:undo gamma", tool(prefix+"log", map[string]any{}), tool(prefix+"undo", map[string]any{"key": "k"}), "done"), "--resume", session)
		wantUndone(s, "claude-code")
		if call := s.CallFor("gamma"); !e2erig.Said(call, "Call the tool undo of segno. gamma") {
			s.Errorf("the command of the plugin did not run:\n%s", call.Body)
		}
	})
}

func pluginOfCodex(t *testing.T) {
	s, agent := e2erig.Codex(t, agentrig.CodexNewest, pluginFiles)
	dir := writePlugin(s, "codex")
	runAgent(s, "plugin", "marketplace", "add", dir)
	runAgent(s, "plugin", "add", "segno@segno")
	if out := runAgent(s, "plugin", "list"); !strings.Contains(out, "segno@segno") {
		s.Errorf("plugin list:\n%s", out)
	}
	say := func(prompt string, args ...string) string {
		res, err := agent.Exec(s.Ctx, prompt, args...)
		if err != nil {
			s.Fatal(err)
		}
		return res.Thread
	}
	shell := func(command string) map[string]any { return tool("exec_command", map[string]any{"cmd": command}) }
	session := say(e2erig.Prompt("alpha", shell("echo 1 > a.txt"), "done"))
	say(e2erig.Prompt("beta", shell("echo 2 > a.txt"), "done"), "resume", session)
	call := func(name, input string) map[string]any { // Codex has a namespace for the tools of each server
		return map[string]any{"raw": []any{map[string]any{"type": "function_call", "id": "fc_" + name, "call_id": "call_" + name, "status": "completed",
			"namespace": "mcp__segno", "name": name, "arguments": input}}}
	}
	say(e2erig.Prompt("gamma", call("log", "{}"), call("undo", `{"key":"k"}`), "done"), "resume", session)
	wantUndone(s, "codex-mcp-client")
}

func pluginOfGemini(t *testing.T) {
	s, agent := e2erig.Gemini(t, agentrig.GeminiNewest, pluginFiles)
	dir := writePlugin(s, "gemini")
	script := agent.Flags[0]
	runAgent(s, script, "extensions", "install", dir, "--consent")
	if out := runAgent(s, script, "extensions", "list"); !strings.Contains(out, "segno") {
		s.Errorf("extensions list:\n%s", out)
	}
	say := func(prompt string, args ...string) string {
		res, err := agent.Prompt(s.Ctx, prompt, args...)
		if err != nil {
			s.Fatal(err)
		}
		return res.Session
	}
	shell := func(command string) map[string]any {
		return tool("run_shell_command", map[string]any{"command": command, "description": "d"})
	}
	session := say(e2erig.Prompt("alpha", shell("echo 1 > a.txt"), "done"))
	say(e2erig.Prompt("beta", shell("echo 2 > a.txt"), "done"), "--resume", session)
	say(e2erig.Prompt("gamma", tool("mcp_segno_log", map[string]any{}), tool("mcp_segno_undo", map[string]any{"key": "k"}), "done"), "--resume", session)
	wantUndone(s, "gemini-cli-mcp-client")
}
