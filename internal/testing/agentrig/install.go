package agentrig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/dalsegno/segno/internal/testing/debian"
)

// Install returns the path of a version of the agent. The first call installs it into the
// user's cache; concurrent processes install it only once. The error is one line that names the
// package.
func Install(ctx context.Context, version ClaudeVersion) (string, error) {
	// Install the platform's package: the main one contains only a script that would copy it.
	p := npmPackage{name: claudePackage, version: string(version), file: claudePackage + "-" + platform() + "/claude", before: version.before()}
	return p.install(ctx)
}

// InstallAxe returns the path of axe-core, a script that checks the accessibility of a page.
func InstallAxe(ctx context.Context) (string, error) {
	return npmPackage{name: "axe-core", version: axeVersion, file: "axe-core/axe.min.js", before: pinnedOn}.install(ctx)
}

// platform returns the name of this machine's platform in packages.
func platform() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return runtime.GOOS + "-" + arch
}

// npmPackage is a program that npm installs.
type npmPackage struct {
	name, version string
	file          string   // the program, inside node_modules
	with          []string // more packages, for dependencies whose versions the package leaves open
	before        string   // npm uses dependencies published before this day; "" for no limit
}

func (p npmPackage) String() string { return p.name + "@" + p.version }

// install returns the path of the program. The first call installs it into the user's cache;
// concurrent processes install it only once.
func (p npmPackage) install(ctx context.Context) (string, error) {
	file, err := p.cached(ctx)
	if err != nil {
		return "", fmt.Errorf("agentrig: installing %s: %w", p, err)
	}
	return file, nil
}

func (p npmPackage) cached(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := path.Base(p.String())
	for _, w := range p.with {
		name += "+" + path.Base(w)
	}
	dir := filepath.Join(cache, "segno-test", name)
	inside := filepath.Join("node_modules", filepath.FromSlash(p.file))
	file := filepath.Join(dir, inside)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := debian.Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(file); err == nil {
		return file, nil // another process was first
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "installing-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := npmInstall(ctx, temp, p.before, append([]string{p.String()}, p.with...)...); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(temp, inside)); err != nil {
		return "", fmt.Errorf("no program for %s in it: %w", platform(), err)
	}
	// An interrupted removal leaves a directory without the program.
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return file, os.Rename(temp, dir)
}

// npmInstall runs npm with the caller's own configuration, which names the registry. It does
// not run any script of a package.
func npmInstall(ctx context.Context, dir, before string, names ...string) error {
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"private\":true}\n"), 0o644); err != nil {
		return err
	}
	args := []string{"install", "--ignore-scripts", "--include=optional", "--save-exact",
		"--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"}
	if before != "" {
		args = append(args, "--before="+before)
	}
	cmd := exec.CommandContext(ctx, "npm", append(args, names...)...)
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

// firstError returns the line of npm's output that contains the error, because an error of this
// package has one line.
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
