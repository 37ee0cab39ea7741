package agentrig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// Pins: this file lists the version of every other program that the tests run, so
// that an upstream release never changes the result of a test. An agent's files have no
// published format, so segno states the versions with which it was tested.
//
// To move a pin, run "make newest", which runs the same scenarios on the newest versions in
// npm. Then write the version that passed here.
const (
	// ClaudeOldest and ClaudeNewest are the versions of Claude Code that run the
	// scenarios: the oldest that is supported, and the newest when the pin was set. By
	// default the oldest runs only some of them; with SEGNO_SOAK it runs all.
	ClaudeOldest ClaudeVersion = "2.1.197"
	ClaudeNewest ClaudeVersion = "2.1.332"

	// The oldest two adapters ignore the fork point of a session/fork; the newest ones
	// honour it.
	ClaudeACPOldest ACPAgent = "claude-agent-acp@0.49.0"
	ClaudeACPNewest ACPAgent = "claude-agent-acp@0.101.0"
	CodexACPOldest  ACPAgent = "codex-acp@1.7.0"
	CodexACPNewest  ACPAgent = "codex-acp@2.6.0"
	OpenCode        ACPAgent = "opencode-ai@1.18.33"
	// GoExample does not keep its sessions: it has no load and no resume. go.mod pins it.
	GoExample ACPAgent = "acp-go-sdk"

	// CodexOldest writes lines without ordinals.
	CodexOldest CodexVersion = "0.125.0"
	CodexNewest CodexVersion = "0.171.0"

	// GeminiNewest is the version of Gemini CLI.
	GeminiNewest GeminiVersion = "0.61.0"

	claudePackage = "@anthropic-ai/claude-code"
	acpScope      = "@agentclientprotocol/"
	codexPackage  = "@openai/codex"
	geminiPackage = "@google/gemini-cli"

	// Dependencies of codex-acp, which leaves their versions open.
	codexOldest = "0.148.0"
	codexNewest = "0.166.0"
	acpxVersion = "0.19.1"
	axeVersion  = "4.14.1"
	nodeVersion = "22.23.3" // a machine's own node is often too old for the agents

	// pinnedOn pins the versions that these packages leave open: npm installs the newest
	// version of a dependency that was published before this day.
	pinnedOn = "2026-11-26"
)

// ClaudeVersion is a version of Claude Code in npm's spelling.
type ClaudeVersion string

// ACPAgent names an agent that speaks the Agent Client Protocol, and its version.
type ACPAgent string

// ACPAgents returns all pinned agents.
func ACPAgents() []ACPAgent { return append(DurableACPAgents(), GoExample) }

// DurableACPAgents returns the agents that keep their sessions.
func DurableACPAgents() []ACPAgent {
	return []ACPAgent{ClaudeACPOldest, ClaudeACPNewest, CodexACPOldest, CodexACPNewest, OpenCode}
}

// IsClaude reports whether a is a version of claude-agent-acp.
func (a ACPAgent) IsClaude() bool { return a == ClaudeACPOldest || a == ClaudeACPNewest }

// IsCodex reports whether a is a version of codex-acp.
func (a ACPAgent) IsCodex() bool { return a == CodexACPOldest || a == CodexACPNewest }

// The environment variables that replace a pin.
const (
	claudeVar    = "SEGNO_CLAUDE"
	claudeACPVar = "SEGNO_CLAUDE_ACP"
	codexVar     = "SEGNO_CODEX"
	codexACPVar  = "SEGNO_CODEX_ACP"
	openCodeVar  = "SEGNO_OPENCODE"
	geminiVar    = "SEGNO_GEMINI"
)

// ClaudeVersions returns the versions on which a scenario runs: both pins, or the one that
// the environment names.
func ClaudeVersions() []ClaudeVersion {
	if v := os.Getenv(claudeVar); v != "" {
		return []ClaudeVersion{ClaudeVersion(v)}
	}
	return []ClaudeVersion{ClaudeOldest, ClaudeNewest}
}

// UseNewest replaces the pins of this process with the newest versions in npm, if
// SEGNO_NEWEST is 1. It returns the packages that will run, one per line. It sets
// environment variables, so a TestMain must call it before any test runs.
func UseNewest(ctx context.Context) (string, error) {
	if os.Getenv("SEGNO_NEWEST") != "1" {
		return "", nil
	}
	var used strings.Builder
	for _, pin := range []struct{ variable, pkg string }{
		{claudeVar, claudePackage}, {claudeACPVar, acpScope + "claude-agent-acp"}, {codexACPVar, acpScope + "codex-acp"},
		{openCodeVar, "opencode-ai"}, {codexVar, codexPackage}, {geminiVar, geminiPackage},
	} {
		version, err := npmLatest(ctx, pin.pkg)
		if err != nil {
			return "", err
		}
		if err := os.Setenv(pin.variable, version); err != nil {
			return "", fmt.Errorf("agentrig: set %s: %w", pin.variable, err)
		}
		fmt.Fprintf(&used, "newest: %s@%s\n", pin.pkg, version)
	}
	return used.String(), nil
}

func npmLatest(ctx context.Context, pkg string) (string, error) {
	cmd := exec.CommandContext(ctx, "npm", "view", "--loglevel=error", pkg, "version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("agentrig: asking npm for the newest %s: %w: %s", pkg, err, firstError(out))
	}
	return lastLine(out), nil
}

// before returns the day before which the dependencies of a version must have been
// published, or "" if no pin names the version.
func (v ClaudeVersion) before() string {
	if v == ClaudeOldest || v == ClaudeNewest {
		return pinnedOn
	}
	return ""
}

// npm returns the package to install for an agent: its pin, or the version that the
// environment names instead.
func (a ACPAgent) npm() npmPackage {
	name, version, _ := strings.Cut(string(a), "@")
	p := npmPackage{name: acpScope + name, version: version, file: acpScope + name + "/dist/index.js", before: pinnedOn}
	replacement := ""
	switch a {
	case ClaudeACPNewest:
		replacement = os.Getenv(claudeACPVar)
	case CodexACPOldest:
		p.with = []string{codexPackage + "@" + codexOldest}
	case CodexACPNewest:
		replacement = os.Getenv(codexACPVar)
		p.with = []string{codexPackage + "@" + codexNewest}
	case OpenCode:
		replacement = os.Getenv(openCodeVar)
		// Install the platform's package: the main one only starts its program.
		p.name = "opencode-" + platform()
		if runtime.GOARCH == "amd64" {
			p.name += "-baseline" // the package without -baseline needs a newer processor
		}
		p.file = p.name + "/bin/opencode"
	}
	if replacement != "" {
		p.version, p.before, p.with = replacement, "", nil
	}
	return p
}
