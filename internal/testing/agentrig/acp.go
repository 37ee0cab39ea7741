package agentrig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ACP is one isolated installation of an agent that speaks the Agent Client
// Protocol on its standard streams.
type ACP struct {
	*Rig    // its home, project and environment; Bin is not set
	Agent   ACPAgent
	Command []string // the agent's command line
	node    string
}

// NewACP makes a home, a configuration and a project for an agent under dir. The first call
// installs the agent. Its model is at modelURL.
func NewACP(ctx context.Context, dir, modelURL string, agent ACPAgent) (*ACP, error) {
	rig, err := New(dir, "", modelURL)
	if err != nil {
		return nil, err
	}
	a := &ACP{Rig: rig, Agent: agent}
	if a.node, err = installNode(ctx); err != nil {
		return nil, err
	}
	rig.Path = []string{filepath.Dir(a.node)}
	// In a sandbox, the adapter skips all permission checks, which the agent below it then
	// refuses to do as root.
	rig.Vars["IS_SANDBOX"] = ""
	rig.Vars["CLAUDE_CODE_MAX_RETRIES"] = "0"
	return a, a.prepare(ctx)
}

func (a *ACP) prepare(ctx context.Context) error {
	if a.Agent == GoExample {
		bin := filepath.Join(filepath.Dir(a.Home), "go-example-agent")
		a.Command = []string{bin}
		return buildGoExample(ctx, bin)
	}
	program, err := a.Agent.npm().install(ctx)
	if err != nil {
		return err
	}
	if a.Agent == OpenCode {
		a.Command = []string{program, "acp"}
		return a.configureOpenCode("ask")
	}
	a.Command = []string{a.node, program}
	if a.Agent.IsCodex() {
		return a.configureCodex()
	}
	return nil
}

// configureOpenCode makes opencode call the rig's model, ask before every shell command or
// allow it, and download nothing: no list of models, no language server, no plugin. The lock
// file lists the library that plugins import, so that opencode assumes that it is installed.
func (a *ACP) configureOpenCode(shell string) error {
	config := map[string]any{
		"model": "fake/fake-1", "small_model": "fake/fake-1", "autoupdate": false, "share": "disabled",
		"provider": map[string]any{"fake": map[string]any{"npm": "@ai-sdk/anthropic", "name": "fake",
			"options": map[string]any{"baseURL": a.ModelURL + "/v1", "apiKey": dummyKey},
			"models":  map[string]any{"fake-1": map[string]any{"name": "fake", "limit": map[string]any{"context": 200000, "output": 8000}}}}},
		"permission": map[string]any{"bash": shell},
	}
	for _, name := range []string{"MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD"} {
		a.Vars["OPENCODE_DISABLE_"+name] = "true"
	}
	dir := a.OpenCodeConfig()
	if err := os.MkdirAll(filepath.Join(dir, "node_modules"), 0o755); err != nil {
		return fmt.Errorf("agentrig: configuring opencode: %w", err)
	}
	lock := map[string]any{"packages": map[string]any{"": map[string]any{"dependencies": map[string]any{"@opencode-ai/plugin": "*"}}}}
	if err := writeJSON(filepath.Join(dir, "package-lock.json"), lock); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, "opencode.json"), config)
}

// buildGoExample builds the example agent of the Go library. go.mod names it as a tool, so
// that it is downloaded and verified like every dependency.
func buildGoExample(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/coder/acp-go-sdk/example/agent")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("agentrig: building the agent of github.com/coder/acp-go-sdk: %w: %s", err, lastLine(out))
	}
	return nil
}

// Start returns command, or the agent's own command if there is none, prepared for the
// project and with the rig's environment. The caller starts it.
func (a *ACP) Start(ctx context.Context, command ...string) *exec.Cmd {
	if len(command) == 0 {
		command = a.Command
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = a.Project, append(a.Env(), "PWD="+a.Project)
	return cmd
}

// ACPX returns a command that runs acpx, a client that drives any agent from the command
// line. It starts agent, approves its requests, and keeps its state in the rig's home.
func (a *ACP) ACPX(ctx context.Context, agent string, args ...string) (*exec.Cmd, error) {
	script, err := acpxPackage().install(ctx)
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, slices.Concat([]string{a.node, script, "--approve-all", "--agent", agent}, args)...), nil
}

// Shell returns a step of a [fakemodel] script in which the agent runs a command.
func (a *ACP) Shell(command string) map[string]any {
	switch {
	case a.Agent.IsCodex():
		return map[string]any{"tool": "exec_command", "input": map[string]any{"cmd": command, "yield_time_ms": 60000}}
	case a.Agent == OpenCode:
		return map[string]any{"tool": "bash", "input": map[string]any{"command": command, "description": "d"}}
	}
	return map[string]any{"tool": "Bash", "input": map[string]any{"command": command, "description": "d"}}
}

// AskingShell returns a step in which the agent asks the user whether it may run a command.
// For that, Codex has to be in its mode "read-only".
func (a *ACP) AskingShell(command string) map[string]any {
	step := a.Shell(command)
	if a.Agent.IsCodex() {
		step["input"] = map[string]any{"cmd": command, "yield_time_ms": 60000,
			"sandbox_permissions": "require_escalated", "justification": "may I?"}
	}
	return step
}

// Edit returns a step in which the agent writes a file of the project with its own tool for
// files. The content must end with a newline.
func (a *ACP) Edit(name, content string) map[string]any {
	path := filepath.Join(a.Project, name)
	switch {
	case a.Agent.IsCodex():
		lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
		return a.Shell("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: " + name + "\n+" + strings.Join(lines, "\n+") + "\n*** End Patch\nEOF")
	case a.Agent == OpenCode:
		return map[string]any{"tool": "write", "input": map[string]any{"filePath": path, "content": content}}
	}
	return map[string]any{"tool": "Write", "input": map[string]any{"file_path": path, "content": content}}
}

// Transcripts returns the files that contain the agent's sessions.
func (a *ACP) Transcripts() ([]string, error) {
	claude, err := filepath.Glob(filepath.Join(a.Config, "projects", "*", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	codex, err := filepath.Glob(filepath.Join(a.Home, ".codex", "sessions", "*", "*", "*", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	opencode, err := filepath.Glob(filepath.Join(a.Home, ".local", "share", "opencode", "opencode.db"))
	return slices.Concat(claude, codex, opencode), err
}

// Option returns the id of the first option of a kind, such as allow_once or reject_once,
// in the params of a session/request_permission.
func Option(params json.RawMessage, kind string) string {
	var ask struct {
		Options []struct{ OptionID, Kind string }
	}
	if json.Unmarshal(params, &ask) != nil {
		return ""
	}
	for _, o := range ask.Options {
		if o.Kind == kind {
			return o.OptionID
		}
	}
	return ""
}
