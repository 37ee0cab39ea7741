package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"strings"
)

// resultFile is the document with the results, relative to the root of the repository.
const resultFile = "docs/soak.md"

// source is the checkout that the campaigns test.
type source struct {
	root   string
	commit string // its short name, and a hash of the changes that are not committed
}

func openSource(ctx context.Context) (source, error) {
	var s source
	var err error
	if s.root, err = git(ctx, ".", "rev-parse", "--show-toplevel"); err != nil {
		return s, err
	}
	if s.commit, err = git(ctx, s.root, "rev-parse", "--short=12", "HEAD"); err != nil {
		return s, err
	}
	changes, err := s.files(ctx, "diff", "HEAD")
	if err != nil {
		return s, err
	}
	added, err := s.files(ctx, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return s, err
	}
	if changes+added != "" {
		s.commit += fmt.Sprintf("+%.3x", sha256.Sum256([]byte(changes+added)))
	}
	return s, nil
}

// files runs a command of git on all files but the results.
func (s source) files(ctx context.Context, args ...string) (string, error) {
	return git(ctx, s.root, append(args, "--", ".", ":!"+resultFile, ":!"+stateDir)...)
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, "git", args...)
}

// output runs a command and returns what it prints, without the newline at the end.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
