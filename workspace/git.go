package workspace

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// readGit reads git's state of the directory root from git's own files, because a git command
// might refresh its index, or run a program that the repository names. It returns nil if there
// is no repository, or if this user may not read it: a snapshot must not fail for that reason.
func readGit(root string) *segno.Git {
	r := findWorkTree(root)
	if r == nil {
		return nil
	}
	defer r.close()
	g := &segno.Git{Operation: r.git.operation()}
	ref := r.git.linkedHead()
	if ref == "" {
		head, err := r.git.readFile("HEAD", maxGitText)
		if err != nil {
			return nil
		}
		text := strings.TrimSpace(string(head))
		var symbolic bool
		if ref, symbolic = strings.CutPrefix(text, "ref: "); !symbolic {
			g.Head = commitName(text)
			return g
		}
	}
	if g.Branch = strings.TrimPrefix(ref, "refs/heads/"); g.Branch == ".invalid" { // the reftable backend keeps refs elsewhere
		g.Branch = ""
		return g
	}
	g.Head = r.common.resolveRef(ref)
	return g
}

// workTree is the top directory of a repository's work tree.
type workTree struct {
	top  *dirHandle
	path string // of top
	*repository
	ignores func(path string) bool // set by view.openWorkTree
}

func (w *workTree) close() {
	w.repository.close()
	w.top.close()
}

// findWorkTree opens the repository that contains root, or returns nil. The nearest .git at or
// above root decides. findWorkTree reads it only if it belongs to this process's user or to the
// owner of root. It follows a .git file or symlink only under the conditions of
// followGitPointer.
func findWorkTree(root string) *workTree {
	owner, err := ownerAt(root)
	if err != nil {
		return nil
	}
	for _, up := range upwards(root) {
		top, err := openRealDir(up)
		if err != nil {
			continue // git, too, ignores a .git in a directory that it may not list
		}
		if w, found := openGitIn(top, up, owner); found {
			return w
		}
	}
	return nil
}

// ownerAt returns the user id of the owner of a directory.
func ownerAt(path string) (uint32, error) {
	root, err := openRealDir(path)
	if err != nil {
		return 0, err
	}
	defer root.close()
	st, err := root.lstat("")
	return st.uid, err
}

// openGitIn opens the repository whose .git is in the directory top, at the absolute path base.
// found is true if there is a .git, even one that may not be read. If openGitIn returns nil, it
// has closed top.
func openGitIn(top *dirHandle, base string, owner uint32) (w *workTree, found bool) {
	defer func() {
		if w == nil {
			top.close()
		}
	}()
	st, err := top.lstat(gitName)
	if err != nil || !isTrusted(st.uid, owner) {
		return nil, err == nil
	}
	var r *repository
	if st.is(typeDir) {
		if handle, err := top.openDir(gitName); err == nil {
			g := &gitDir{filepath.Join(base, gitName), handle}
			r = &repository{g, g}
		}
	} else if _, real, err := readGitPointer(top, base); err == nil {
		r, _ = followGitPointer(top, base, real)
	}
	if r == nil {
		return nil, true
	}
	return &workTree{top: top, path: base, repository: r}, true
}

// resolve returns path; if it is relative, it is joined to base.
func resolve(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// resolveRef returns the commit that a ref names, or "" for an unborn branch.
func (g *gitDir) resolveRef(ref string) string {
	for range 5 { // a ref may name another ref
		if !fs.ValidPath(ref) {
			return "" // the path would leave the repository
		}
		data, err := g.readFile(ref, maxGitText)
		if err != nil {
			return g.packedRef(ref)
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

// maxPackedRefs is the largest part of packed-refs that is read: about half a million refs.
const maxPackedRefs = 64 << 20

func (g *gitDir) packedRef(ref string) string {
	f, _, err := g.openRegular("packed-refs")
	if err != nil {
		return ""
	}
	defer f.close()
	lines := bufio.NewScanner(io.LimitReader(f, maxPackedRefs))
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

// operation returns the operation in progress in a git directory, or "".
func (g *gitDir) operation() string {
	for _, o := range []struct{ file, name string }{
		{"rebase-merge", "rebase"},
		{path.Join("rebase-apply", "applying"), "am"},
		{"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"BISECT_LOG", "bisect"},
	} {
		if g.exists(o.file) {
			return o.name
		}
	}
	return ""
}
