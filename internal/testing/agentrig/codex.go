package agentrig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// CodexVersion is a version of Codex in npm's spelling.
type CodexVersion string

// CodexVersions returns the versions on which a scenario runs: both pins, or the one that the
// environment names.
func CodexVersions() []CodexVersion {
	if v := os.Getenv(codexVar); v != "" {
		return []CodexVersion{CodexVersion(v)}
	}
	return []CodexVersion{CodexOldest, CodexNewest}
}

// npm returns the package of the platform. The main package only starts the program of that
// one.
func (v CodexVersion) npm() npmPackage {
	system := map[string]string{"linux": "unknown-linux-musl", "darwin": "apple-darwin"}[runtime.GOOS]
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	dir := "bin"
	if v == CodexOldest {
		dir = "codex"
	}
	p := npmPackage{name: codexPackage, version: string(v), before: pinnedOn,
		file: codexPackage + "-" + platform() + "/vendor/" + arch + "-" + system + "/" + dir + "/codex"}
	if v != CodexOldest && v != CodexNewest {
		p.before = ""
	}
	return p
}

// Codex is one isolated installation of Codex.
type Codex struct {
	*Rig
	Version CodexVersion
}

// NewCodex makes a home, a configuration and a project for a version under dir. The first
// call installs the version. Its model is at modelURL.
func NewCodex(ctx context.Context, dir, modelURL string, version CodexVersion) (*Codex, error) {
	bin, err := version.npm().install(ctx)
	if err != nil {
		return nil, err
	}
	rig, err := New(dir, bin, modelURL)
	if err != nil {
		return nil, err
	}
	rig.Flags = []string{"--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}
	return &Codex{rig, version}, rig.configureCodex()
}

// CodexHome returns the value of its $CODEX_HOME.
func (c *Codex) CodexHome() string { return filepath.Join(c.Home, ".codex") }

// CodexResult is the result of one codex exec.
type CodexResult struct {
	Thread         string // the session that it reported
	Stdout, Stderr string
	Code           int
}

// Exec runs codex exec to its end, with a prompt and optionally a subcommand and its
// argument. An exit code other than 0 is an error, too.
func (c *Codex) Exec(ctx context.Context, prompt string, subcommand ...string) (CodexResult, error) {
	var stdout, stderr bytes.Buffer
	cmd := c.command(ctx, slices.Concat([]string{"exec"}, subcommand, c.Flags, []string{prompt})...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	p, err := start(cmd)
	if err != nil {
		return CodexResult{}, err
	}
	code, err := p.Wait(ctx)
	res := CodexResult{Stdout: stdout.String(), Stderr: stderr.String(), Code: code}
	for line := range bytes.Lines(stdout.Bytes()) {
		var event struct {
			Type   string `json:"type"`
			Thread string `json:"thread_id"`
		}
		if json.Unmarshal(line, &event) == nil && event.Type == "thread.started" {
			res.Thread = event.Thread
		}
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("agentrig: codex exited with %d: %s%s", code, res.Stdout, res.Stderr)
	}
	return res, err
}

// TUI starts the terminal program with a command line, such as that of a transcript's Resume,
// and returns at once. Codex's server in the background is off, because it would outlive the
// program.
func (c *Codex) TUI(ctx context.Context, args ...string) (*TUI, error) {
	cmd := c.command(ctx, append([]string{"--dangerously-bypass-approvals-and-sandbox", "-c", "features.daemon_auto_start=false"}, args...)...)
	return startTUI(cmd, map[string]string{"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?62;c"})
}

// configureCodex makes codex call the rig's model and run every command without asking. It
// turns the sandbox off, because the sandbox needs kernel features that not every machine
// has.
func (r *Rig) configureCodex() error {
	config := `model = "gpt-fake-1"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = ` + strconv.Quote(r.ModelURL+"/v1") + `
wire_api = "responses"
env_key = "FAKE_API_KEY"
request_max_retries = 0
stream_max_retries = 0
[projects.` + strconv.Quote(r.Project) + `]
trust_level = "trusted"
`
	dir := filepath.Join(r.Home, ".codex")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("agentrig: configuring codex: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("agentrig: configuring codex: %w", err)
	}
	r.Vars["FAKE_API_KEY"] = dummyKey
	r.Vars["INITIAL_AGENT_MODE"] = "agent-full-access"
	return nil
}
