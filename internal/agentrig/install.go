package agentrig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Package and Version are what is installed. The version is pinned because the
// agent's files are no published format: segno says what it was tested with.
const (
	Package = "@anthropic-ai/claude-code"
	Version = "2.1.197"
)

// Install returns the path of the pinned agent, installing it into the user's
// cache the first time. Processes that ask at once install it once.
func Install(ctx context.Context) (string, error) {
	return InstallVersion(ctx, Version)
}

// InstallVersion is [Install] for another version.
func InstallVersion(ctx context.Context, version string) (string, error) {
	name := Package + "@" + version
	bin, err := install(ctx, version)
	if err != nil {
		return "", fmt.Errorf("agentrig: installing %s: %w", name, err)
	}
	return bin, nil
}

func install(ctx context.Context, version string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "segno-test", "claude-code@"+version)
	bin := filepath.Join(dir, binary())
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(bin); err == nil {
		return bin, nil // another process was first
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "installing-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := npmInstall(ctx, temp, Package+"@"+version); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(temp, binary())); err != nil {
		return "", fmt.Errorf("no agent for %s/%s in it: %w", runtime.GOOS, runtime.GOARCH, err)
	}
	// A directory without the binary is what an interrupted removal leaves.
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return bin, os.Rename(temp, dir)
}

// binary is the agent inside an installation. npm picks the platform's package;
// the main one only holds a script that would copy it.
func binary() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return filepath.Join("node_modules", Package+"-"+runtime.GOOS+"-"+arch, "claude")
}

// npmInstall runs npm with the caller's own configuration, which says where
// packages come from. No script of a package is run.
func npmInstall(ctx context.Context, dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"private\":true}\n"), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--include=optional",
		"--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", name)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	switch why := firstError(out); {
	case err == nil:
		return nil
	case why == "":
		return fmt.Errorf("running npm: %w", err)
	default:
		return fmt.Errorf("running npm: %w: %s", err, why)
	}
}

// firstError is the line of npm's output that says what is wrong: an error here
// has to fit one line.
func firstError(out []byte) string {
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.Contains(strings.ToLower(line), "npm err") {
			return line
		}
	}
	line, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n")
	return line
}

// lock waits for an exclusive lock on file, which the system drops with the
// process.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", file, err)
	}
	return func() { f.Close() }, nil
}
