package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// commands are the programs of a release.
var commands = []string{"segno", "segno-hook"}

// readSource asks git for the commit: its tag is the version, and its time is that of every file. $SOURCE_DATE_EPOCH replaces
// the time. A source without a repository has neither, and needs both this variable and a version.
func readSource(ctx context.Context, version string) (s source, err error) {
	goVersion, err := command(ctx, nil, "go", "env", "GOVERSION")
	if err != nil {
		return s, err
	}
	s = source{version: version, goVersion: strings.TrimSpace(string(goVersion)), revision: "unknown"}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	commit, err := command(ctx, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil && (seconds == "" || version == "") {
		return s, fmt.Errorf("set SOURCE_DATE_EPOCH and give -version, because git does not know the commit: %w", err)
	}
	if err == nil {
		hash, at, _ := strings.Cut(strings.TrimSpace(string(commit)), " ")
		s.revision, seconds = hash, cmp.Or(seconds, at)
		if s.version == "" {
			if s.version, err = describe(ctx, hash); err != nil {
				return s, err
			}
		}
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`).MatchString(s.version) {
		return s, fmt.Errorf("the version %q does not have the form 1.2.3", s.version)
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	s.time = time.Unix(unix, 0).UTC()
	return s, nil
}

// describe returns the version of HEAD: that of its tag, or one that no release has and that sorts before all of them.
func describe(ctx context.Context, hash string) (string, error) {
	version := "0.0.0-g" + hash[:12]
	if tag, err := command(ctx, nil, "git", "describe", "--tags", "--exact-match", "--match=v*"); err == nil {
		version = strings.TrimPrefix(strings.TrimSpace(string(tag)), "v")
	}
	changes, err := command(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if len(changes) > 0 {
		version += "+changed"
	}
	return version, nil
}

// compile returns the programs for a platform.
func compile(ctx context.Context, work, version string, p platform) (binaries []entry, err error) {
	dir := filepath.Join(work, p.String())
	if err := goBuild(ctx, version, dir, p, "./cmd/segno", "./cmd/segno-hook"); err != nil {
		return nil, err
	}
	for _, name := range commands {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, entry{name, 0o755, data})
	}
	return binaries, nil
}

// goBuild builds packages into a directory. Its flags, and the variables that goEnv sets, make the result depend on the
// files of the commit and the version of Go only. So go does not stamp the state of the repository, which it finds in a clone
// and not in another work tree, and the linker gets the version.
func goBuild(ctx context.Context, version, dir string, p platform, packages ...string) error {
	_, err := command(ctx, goEnv(p), "go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version=" + version,
		"-o", dir + string(filepath.Separator)}, packages...)...)
	return err
}

// goEnv returns variables for go. GOPROXY=off guarantees that nothing is downloaded.
func goEnv(p platform) []string {
	return []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=",
		"GOPROXY=off", "GOTOOLCHAIN=local", "GOWORK="}
}

// command runs a program with additional variables, and returns its output. The error contains what it wrote to stderr.
func command(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// makeManuals writes the man pages into a directory. A test makes them, so that the library that does is not in the command.
func makeManuals(ctx context.Context, dir string) error {
	_, err := command(ctx, []string{"GOPROXY=off"}, "go", "test", "-count=1", "-vet=off", "./cmd/segno/reference", "-run=^TestManPages$", "-man="+dir)
	return err
}

// readDocuments makes the completion scripts, and reads the man pages and the other texts.
func (r *release) readDocuments(ctx context.Context, work string) (err error) {
	if r.manuals, err = readFiles("man", filepath.Join(work, "man", "*.1")); err != nil {
		return err
	}
	native := r.binaries[host()]
	if native == nil {
		if native, err = compile(ctx, work, r.version, host()); err != nil {
			return err
		}
	}
	self := filepath.Join(work, "native")
	if err := os.WriteFile(self, native[0].data, 0o755); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		script, err := command(ctx, nil, self, "completion", shell)
		if err != nil {
			return err
		}
		r.completed = append(r.completed, entry{name: "completions/segno." + shell, data: script})
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		r.texts = append(r.texts, entry{name: name, data: data})
	}
	licenses, err := licenses(r.modules, filepath.Join(runtime.GOROOT(), "LICENSE"))
	r.texts = append(r.texts, entry{name: "LICENSES.txt", data: licenses})
	return err
}
