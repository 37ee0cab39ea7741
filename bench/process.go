package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build builds the segno command and segno-hook: statically, as for a release, or dynamically, as go
// build does by default if there is a C compiler.
func (b *bench) build(ctx context.Context, static bool) (string, error) {
	bin := filepath.Join(b.dir, fmt.Sprintf("segno-static-%t", static))
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/dalsegno/segno").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := strings.TrimSpace(string(module))
	if err := goBuild(ctx, bin+"-hook", root, "./cmd/segno-hook", static); err != nil {
		return "", err
	}
	return bin, goBuild(ctx, bin, root, "./cmd/segno", static)
}

// buildEmpty builds a Go program that does nothing.
func (b *bench) buildEmpty(ctx context.Context) (string, error) {
	dir, err := b.scratch("empty")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "empty")
	return bin, b.buildSource(ctx, bin, "package main\n\nfunc main() {}\n")
}

// buildSource builds a program of one file beside the binary.
func (b *bench) buildSource(ctx context.Context, bin, source string) error {
	dir := filepath.Dir(bin)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		return err
	}
	return goBuild(ctx, bin, dir, "main.go", true)
}

func goBuild(ctx context.Context, bin, dir, what string, static bool) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, what)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=") // unset the checkout's workspace, because this program is outside of it
	if static {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", what, err, out)
	}
	return nil
}

// agent runs hooks as Claude Code does: each as a process without a shell, with the event on its
// standard input.
type agent struct {
	bin   string // the path of segno
	home  string
	env   []string
	dir   string // its working directory
	talk  *session
	input *os.File
	*processes
}

func newAgent(ctx context.Context, b *bench, dir string) (_ *agent, err error) {
	a := &agent{dir: dir}
	if a.bin, err = b.build(ctx, true); err != nil {
		return nil, err
	}
	if a.home, err = b.scratch("home"); err != nil {
		return nil, err
	}
	if a.processes, err = b.newProcesses(ctx); err != nil {
		return nil, err
	}
	claude := filepath.Join(a.home, ".claude")
	a.env = []string{"HOME=" + a.home, "PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=" + filepath.Join(a.home, "data"),
		"CLAUDE_CONFIG_DIR=" + claude, "CLAUDE_PROJECT_DIR=" + dir}
	if a.talk, err = newSession(claude, dir); err != nil {
		return nil, err
	}
	a.input, err = os.Create(filepath.Join(a.home, "event"))
	return a, err
}

func (a *agent) close() { a.input.Close() }

// event writes the input of the next process.
func (a *agent) event(name string, more map[string]any) error {
	p := map[string]any{"hook_event_name": name, "session_id": a.talk.source.Session, "transcript_path": a.talk.source.Path,
		"cwd": a.dir, "prompt_id": a.talk.prompt(), "permission_mode": "default"}
	for k, v := range more {
		p[k] = v
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := a.input.Truncate(0); err != nil {
		return err
	}
	_, err = a.input.WriteAt(data, 0)
	return err
}

// exec runs one process and waits for it.
func (a *agent) exec(ctx context.Context, bin string, args ...string) error {
	if _, err := a.input.Seek(0, 0); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stdin, cmd.Env, cmd.Dir = a.input, a.env, a.dir
	return a.run(cmd)
}

func (a *agent) hook(ctx context.Context) error { return a.exec(ctx, a.bin, "hook", "claude") }

// atTool runs the command that enable registers for tool boundaries.
func (a *agent) atTool(ctx context.Context) error {
	return a.exec(ctx, a.bin+"-hook", "hook", "claude")
}

// complaints returns the text of the hooks' log as an error, or nil if the log is empty.
func (a *agent) complaints() error {
	text, err := os.ReadFile(filepath.Join(a.home, "data", "segno", "hook.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(text) > 0 {
		err = fmt.Errorf("hook.log: %s", text)
	}
	return err
}
