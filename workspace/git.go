package workspace

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// readGit reads what git says of the directory root, from git's own files: a git
// command might refresh its index. It is nil where there is no repository, or none
// that can be read: what a guest cannot see is no reason to save nothing.
func readGit(root string) *segno.Git {
	dir := findGit(root)
	if dir == "" {
		return nil
	}
	head, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	if err != nil {
		return nil
	}
	g := &segno.Git{Operation: gitOperation(dir)}
	text := strings.TrimSpace(string(head))
	ref, symbolic := strings.CutPrefix(text, "ref: ")
	if !symbolic {
		g.Head = commitName(text)
		return g
	}
	g.Branch = strings.TrimPrefix(ref, "refs/heads/")
	if g.Branch == ".invalid" { // the reftable backend keeps refs elsewhere
		g.Branch = ""
		return g
	}
	g.Head = resolveRef(dir, ref)
	return g
}

// findGit returns the git directory of the repository root is in, or "".
func findGit(root string) string {
	for dir := root; ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".git")
		if fi, err := os.Stat(at); err == nil {
			if fi.IsDir() {
				return at
			}
			return gitPointer(at)
		}
		if filepath.Dir(dir) == dir {
			return ""
		}
	}
}

// gitPointer returns the directory a .git file of a worktree or submodule names,
// or "".
func gitPointer(path string) string {
	data, err := os.ReadFile(path)
	to, ok := strings.CutPrefix(string(data), "gitdir: ")
	if err != nil || !ok {
		return ""
	}
	return resolve(filepath.Dir(path), strings.TrimRight(to, "\r\n"))
}

// commonGit returns the directory that holds what all worktrees of a repository
// share: refs, objects, config.
func commonGit(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "commondir"))
	if err != nil {
		return dir
	}
	return resolve(dir, strings.TrimRight(string(data), "\r\n"))
}

func resolve(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// resolveRef returns the commit a ref names, "" for an unborn branch.
func resolveRef(dir, ref string) string {
	common := commonGit(dir)
	for range 5 { // a ref may name another
		data, err := os.ReadFile(filepath.Join(common, filepath.FromSlash(ref)))
		if err != nil {
			return packedRef(common, ref)
		}
		text := strings.TrimSpace(string(data))
		next, symbolic := strings.CutPrefix(text, "ref: ")
		if !symbolic {
			return commitName(text)
		}
		ref = next
	}
	return ""
}

func packedRef(common, ref string) string {
	f, err := os.Open(filepath.Join(common, "packed-refs"))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, of, ok := bytes.Cut(lines.Bytes(), []byte(" ")); ok && string(of) == ref {
			return commitName(string(name))
		}
	}
	return ""
}

// commitName returns s if it is the name of a commit, SHA-1 or SHA-256, else "".
func commitName(s string) string {
	if len(s) != 40 && len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// gitOperation returns what is under way in a git directory, or "".
func gitOperation(dir string) string {
	for _, o := range []struct{ file, name string }{
		{"rebase-merge", "rebase"},
		{"rebase-apply/applying", "am"},
		{"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"BISECT_LOG", "bisect"},
	} {
		if _, err := os.Lstat(filepath.Join(dir, o.file)); err == nil {
			return o.name
		}
	}
	return ""
}
