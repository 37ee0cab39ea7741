package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// Root returns the directory that is the workspace of a session in dir: the nearest known
// workspace at or above dir, else the top of the git work tree that contains it, else dir. Root
// skips a directory whose rules protect dir. It never returns a directory that limits forbid,
// so that a repository in the home directory does not count. A work tree that Claude Code made
// for a session (.claude/worktrees/NAME) is itself a root, because sessions in it do not change
// the files of the repository.
//
// The error has [segno.KindRefused] if limits forbid dir. Root registers nothing.
func Root(ctx context.Context, w segno.Workspaces, dir string, limits Limits) (string, error) {
	real, err := realDir(dir)
	if err != nil {
		return "", pathError("find root", dir, err)
	}
	if err := limits.check(real); err != nil {
		return "", err
	}
	for _, at := range upwards(real) {
		if limits.check(at) != nil {
			break // all directories above are forbidden, too
		}
		_, err := findAt(ctx, w, at)
		if err == nil || isAgentWorktree(at) {
			if protects(at, real) {
				break
			}
			return at, nil
		}
		if segno.KindOf(err) != segno.KindNotFound {
			return "", err
		}
	}
	if top := gitTop(real); top != "" && limits.check(top) == nil && !protects(top, real) {
		return top, nil
	}
	return real, nil
}

// protects reports whether the rules of a workspace at root protect dir, or a directory between
// the two. Such a workspace would not record any file of a session in dir.
func protects(root, dir string) bool {
	rel, below := inside(root, dir)
	top, err := openRoot(root)
	if !below || err != nil {
		return false
	}
	defer top.close()
	text, err := top.readFile(ignoreName, maxIgnoreFile)
	if err != nil {
		text = nil // the file is missing; if it cannot be read, a scan will report that
	}
	r := &diskReader{root: top, rules: newRules(text, reserved{}, nil, newBudget()), guarded: make(map[string]string)}
	why, err := r.guard(rel)
	return err == nil && why != ""
}

// isAgentWorktree reports whether dir is a work tree below .claude/worktrees.
func isAgentWorktree(dir string) bool {
	if !strings.HasSuffix(filepath.Dir(dir), "/.claude/worktrees") {
		return false
	}
	fi, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil && fi.Mode().IsRegular()
}

// gitTop returns the top of the git work tree that contains dir, or "". It only reads names,
// types and owners, with lstat(2). It opens no file and runs no git, because the repository may
// be hostile. Like git, it stops at the first .git and at the border of a file system.
func gitTop(dir string) string {
	from, err := os.Lstat(dir)
	if err != nil {
		return ""
	}
	owner := sysStat(from).Uid
	for _, at := range upwards(dir) {
		fi, err := os.Lstat(at)
		if err != nil || sysStat(fi).Dev != sysStat(from).Dev {
			return ""
		}
		git, err := os.Lstat(filepath.Join(at, gitName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && isRepository(at, git) && isTrusted(sysStat(fi).Uid, owner) && isTrusted(sysStat(git).Uid, owner) {
			return at
		}
		return ""
	}
	return ""
}

// isRepository reports whether the .git of a directory looks like a repository: a directory
// with a HEAD, the file of a worktree or submodule, or a link to either.
func isRepository(dir string, git fs.FileInfo) bool {
	switch git.Mode().Type() {
	case 0, fs.ModeSymlink:
		return true
	case fs.ModeDir:
		_, err := os.Lstat(filepath.Join(dir, ".git", "HEAD"))
		return err == nil
	}
	return false
}

// Existing returns the deepest existing directory on the path rel, which is slash-separated and
// below root; "." is root itself. It does not follow symlinks. becomes returns the type that a
// path will have, and whether the path will change at all; nil means that no path changes.
func (d *Dir) Existing(root, rel string, becomes func(path string) (segno.EntityType, bool)) string {
	at := "."
	for _, name := range strings.Split(rel, "/") {
		next := filepath.Join(at, name)
		isDir := false
		if fi, err := os.Lstat(filepath.Join(root, next)); err == nil {
			isDir = fi.IsDir()
		}
		if becomes != nil {
			if to, changes := becomes(next); changes {
				isDir = to == segno.EntityDir
			}
		}
		if !isDir {
			return at
		}
		at = next
	}
	return at
}
