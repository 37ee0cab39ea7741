package workspace

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// maxGitText is the largest size of a small git file that is read: HEAD, a ref, commondir, gitdir,
// a .git file. git itself writes one or two lines into each.
const maxGitText = 64 << 10

// gitDir is an open git directory. Its path contains no symlink, and no symlink below it is
// followed. Its files are opened only if they are regular, because a FIFO or a device could block
// the reader or return endless data.
type gitDir struct {
	path string // absolute, symlinks resolved
	*dirHandle
}

// openGitDir opens the git directory at an absolute path without symlinks.
func openGitDir(real string) (*gitDir, error) {
	root, err := openRealDir(real)
	if err != nil {
		return nil, err
	}
	return &gitDir{real, root}, nil
}

func (d *dirHandle) isOwnedBy(uid uint32) bool {
	st, err := d.lstat("")
	return err == nil && st.uid == uid
}

// readLine returns the content of a file that has one line.
func (d *dirHandle) readLine(rel string) (string, error) {
	text, err := d.readFile(rel, maxGitText)
	return strings.TrimRight(string(text), "\r\n"), err
}

// hasHead reports whether HEAD is a file, or the symlink into refs that old versions of git made.
func (g *gitDir) hasHead() bool {
	st, err := g.lstat("HEAD")
	return err == nil && (st.is(typeFile) || st.is(typeSymlink) && g.linkedHead() != "")
}

// linkedHead returns the ref that HEAD names if it is a symlink, or "".
func (g *gitDir) linkedHead() string {
	if ref, err := g.readlink("HEAD"); err == nil && strings.HasPrefix(ref, "refs/") {
		return ref
	}
	return ""
}

// repository is a git directory and the common directory of all its worktrees.
type repository struct {
	git    *gitDir
	common *gitDir // equals git, except in a linked worktree
}

func (r *repository) close() {
	r.git.close()
	if r.common != r.git {
		r.common.close()
	}
}

// commonOf returns the common directory of the git directory g. For a repository without linked
// worktrees, or its main worktree, that is g itself. commonOf returns an error if the common
// directory does not list g among its worktrees.
func commonOf(g *gitDir) (*gitDir, error) {
	to, err := g.readLine("commondir")
	if isGone(err) {
		return g, nil
	}
	real := ""
	if err == nil {
		real, err = realDir(resolve(g.path, to))
	}
	if in, ok := inside(filepath.Join(real, "worktrees"), g.path); err != nil || !ok || in == "" {
		return nil, errCommon
	}
	common, err := openGitDir(real)
	if err != nil {
		return nil, errCommon
	}
	return common, nil
}

var errCommon = errors.New("its commondir points to a repository that it is not a worktree of")

// The reasons why a .git file or symlink is not followed.
var (
	errLeadsNowhere  = errors.New("it does not name a directory")
	errNoRepository  = errors.New("the directory it names is not a repository")
	errOtherOwner    = errors.New("the repository it names belongs to another user")
	errNoBackPointer = errors.New("the repository it names does not name this directory as its worktree")
)

// readGitPointer returns the directory that the .git file or symlink in dir names. text is the
// path as it is written there, and real the path with symlinks resolved. base is the absolute path
// of dir.
func readGitPointer(dir *dirHandle, base string) (text, real string, err error) {
	if text, err = dir.readlink(gitName); err != nil { // it is a file
		line, err := dir.readLine(gitName)
		var ok bool
		if text, ok = strings.CutPrefix(line, "gitdir: "); err != nil || !ok {
			return "", "", errLeadsNowhere
		}
	}
	if real, err = realDir(resolve(base, text)); err != nil || strings.ContainsRune(text, 0) {
		return "", "", errLeadsNowhere
	}
	return text, real, nil
}

// followGitPointer opens the repository at real, which the .git file or symlink in dir names. The
// repository must have the same owner as the .git, and must name base, the absolute path of dir,
// as its worktree. Otherwise a .git could claim any directory, and a fork would copy it.
func followGitPointer(dir *dirHandle, base, real string) (*repository, error) {
	st, err := dir.lstat(gitName)
	if err != nil {
		return nil, errLeadsNowhere
	}
	g, err := openGitDir(real)
	if err != nil {
		return nil, errNoRepository
	}
	r := &repository{g, g}
	if err := r.claim(base, st.uid); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// claim makes the checks of followGitPointer and opens the common directory. It checks the owner
// before it reads any file.
func (r *repository) claim(base string, owner uint32) error {
	switch {
	case !r.git.isOwnedBy(owner):
		return errOtherOwner
	case !r.git.hasHead():
		return errNoRepository
	}
	common, err := commonOf(r.git)
	if err != nil {
		return err
	}
	r.common = common
	switch {
	case !common.hasHead() || !common.isDir("objects") || !common.isDir("refs"):
		return errNoRepository
	case !common.isOwnedBy(owner):
		return errOtherOwner
	case !r.pointsTo(base):
		return errNoBackPointer
	}
	return nil
}

// pointsTo reports whether r is the repository of the worktree at base. The file gitdir names a
// linked worktree; core.worktree names any other one. The repository of a submodule may instead be
// in the .git/modules of a directory above.
func (r *repository) pointsTo(base string) bool {
	if r.git != r.common {
		to, err := r.git.readLine("gitdir")
		if err != nil || filepath.Base(to) != gitName {
			return false
		}
		return isDirAt(resolve(r.git.path, filepath.Dir(to)), base)
	}
	if text, err := r.git.readFile("config", maxGitConfig); err == nil {
		if tree, ok := worktreeOf(text); ok {
			return isDirAt(resolve(r.git.path, tree), base)
		}
	}
	for _, up := range upwards(base)[1:] {
		if in, ok := inside(filepath.Join(up, gitName, "modules"), r.git.path); ok && in != "" {
			return true
		}
	}
	return false
}

// isDirAt reports whether path, with symlinks resolved, is the directory real.
func isDirAt(path, real string) bool {
	to, err := realDir(path)
	return err == nil && to == real
}

// isTrusted reports whether git configuration in files of owner may be read: owner is this
// process's user, or owns the tree.
func isTrusted(owner, tree uint32) bool { return owner == tree || !isForeign(owner) }

// A .git file is in a submodule or a linked worktree and names its repository. A snapshot saves
// it, so that a restore can write it if it was removed. Without it, git would treat the files as
// part of the surrounding repository. A restore never changes or removes an existing .git file,
// and a fork gets another one; see makeGitIndependent.

// isGitFile reports whether an entry is the .git file of a submodule or worktree.
func isGitFile(name string, st *stat) bool { return name == gitName && st.is(typeFile) }

const gitName = ".git"

// isGitPath reports whether the last name of a path is .git.
func isGitPath(p string) bool { return path.Base(p) == gitName }

// changesGitFile reports whether a step writes or removes a .git file.
func changesGitFile(s segno.Change) bool {
	return isGitPath(s.Path) && (s.From.Type == segno.EntityFile || s.To.Type == segno.EntityFile)
}
