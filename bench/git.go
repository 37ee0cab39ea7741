package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// gitCLI saves a tree with the git command, as most tools do, in a separate repository outside the
// tree. It does not sync its writes, because git does not by default.
type gitCLI struct {
	tree string
	env  []string
	head string // the newest commit
}

func newGitCLI(ctx context.Context, dir, tree string) (*gitCLI, error) {
	repo := filepath.Join(dir, "repo")
	g := &gitCLI{tree: tree, env: append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=bench", "GIT_AUTHOR_EMAIL=bench@localhost", "GIT_COMMITTER_NAME=bench", "GIT_COMMITTER_EMAIL=bench@localhost")}
	if _, err := g.git(ctx, "init", "--quiet", "--bare", repo); err != nil {
		return nil, err
	}
	g.env = append(g.env, "GIT_DIR="+repo, "GIT_WORK_TREE="+tree, "GIT_INDEX_FILE="+filepath.Join(repo, "private-index"))
	for _, setting := range [][2]string{{"core.bare", "false"}, {"gc.auto", "0"}, {"core.untrackedCache", "true"}} {
		if _, err := g.git(ctx, "config", setting[0], setting[1]); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *gitCLI) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = g.tree, g.env
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// save writes the current tree and returns its hash.
func (g *gitCLI) save(ctx context.Context) (string, error) {
	if _, err := g.git(ctx, "add", "--all"); err != nil {
		return "", err
	}
	return g.git(ctx, "write-tree")
}

// commit saves the tree and puts a commit on top of the newest one.
func (g *gitCLI) commit(ctx context.Context) error {
	tree, err := g.save(ctx)
	if err != nil {
		return err
	}
	args := []string{"commit-tree", "-m", "bench", tree}
	if g.head != "" {
		args = append(args, "-p", g.head)
	}
	g.head, err = g.git(ctx, args...)
	return err
}

// restore restores a saved tree.
func (g *gitCLI) restore(ctx context.Context, tree string) error {
	_, err := g.git(ctx, "read-tree", "--reset", "-u", tree)
	return err
}
