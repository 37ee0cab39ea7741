package workspace

import (
	"errors"
	"path/filepath"
	"strings"
)

// maxGitText is the size up to which a small file of git's is read: HEAD, a ref,
// commondir, gitdir, a .git file. git itself writes one or two lines into each.
const maxGitText = 64 << 10

// gitDir is an open git directory. No symlink leads to it, and none below it is
// followed. Its files are opened only if they are regular, so that a FIFO or a
// device cannot block the reader or return data without end.
type gitDir struct {
	path string // absolute, symlinks resolved
	*dirHandle
}

// openGitDir opens the git directory at an absolute path without symlinks.
func openGitDir(path string) (*gitDir, error) {
	root, err := openRealDir(path)
	if err != nil {
		return nil, err
	}
	return &gitDir{path, root}, nil
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

// hasHead reports whether HEAD is a file, or the symlink into refs that old
// versions of git made.
func (g *gitDir) hasHead() bool {
	st, err := g.lstat("HEAD")
	return err == nil && (st.is(typeFile) || st.is(typeSymlink) && g.linkedHead() != "")
}

// linkedHead returns the ref that HEAD names as a symlink, or "".
func (g *gitDir) linkedHead() string {
	if ref, err := g.readlink("HEAD"); err == nil && strings.HasPrefix(ref, "refs/") {
		return ref
	}
	return ""
}

// repository is a git directory and the one whose files its worktrees share.
type repository struct {
	git    *gitDir
	common *gitDir // git itself, unless that is a linked worktree's
}

func (r *repository) close() {
	r.git.close()
	if r.common != r.git {
		r.common.close()
	}
}

// commonOf returns the repository whose git directory is g. It returns an error if g
// names a common directory that does not list g among its worktrees.
func commonOf(g *gitDir) (*repository, error) {
	to, err := g.readLine("commondir")
	if isGone(err) {
		return &repository{g, g}, nil
	}
	if err != nil {
		return nil, errCommon
	}
	real, err := realDir(resolve(g.path, to))
	if err != nil {
		return nil, errCommon
	}
	if in, ok := inside(filepath.Join(real, "worktrees"), g.path); !ok || in == "" {
		return nil, errCommon
	}
	common, err := openGitDir(real)
	if err != nil {
		return nil, errCommon
	}
	return &repository{g, common}, nil
}

var errCommon = errors.New("its commondir leads to a repository that it is not a worktree of")

// isComplete reports whether r has what makes a directory a repository to git.
func (r *repository) isComplete() bool {
	return r.git.hasHead() && r.common.hasHead() && r.common.isDir("objects") && r.common.isDir("refs")
}

// Why a .git file or symlink is not followed.
var (
	errLeadsNowhere  = errors.New("it names no directory")
	errNoRepository  = errors.New("the directory it names is not a repository")
	errOtherOwner    = errors.New("the repository it names belongs to another user")
	errNoBackPointer = errors.New("the repository it names does not name this directory as its worktree")
)

// readGitPointer returns the directory that the .git file or symlink in dir names: text as it is
// written there, and real with symlinks resolved. base is the absolute path of dir.
func readGitPointer(dir *dirHandle, base string) (text, real string, err error) {
	st, err := dir.lstat(gitName)
	if err != nil {
		return "", "", err
	}
	if st.is(typeSymlink) {
		text, err = dir.readlink(gitName)
	} else {
		var ok bool
		if text, err = dir.readLine(gitName); err == nil {
			if text, ok = strings.CutPrefix(text, "gitdir: "); !ok {
				err = errLeadsNowhere
			}
		}
	}
	if err != nil || strings.ContainsRune(text, 0) {
		return "", "", errLeadsNowhere
	}
	if real, err = realDir(resolve(base, text)); err != nil {
		return "", "", errLeadsNowhere
	}
	return text, real, nil
}

// followGitPointer opens the repository at real, which the .git file or symlink in dir names.
// It does so only if that is a repository, has the same owner as the .git, and names
// base, the absolute path of dir, as its worktree: otherwise a .git could claim any
// directory, and a fork would copy it.
func followGitPointer(dir *dirHandle, base, real string) (_ *repository, err error) {
	g, err := openGitDir(real)
	if err != nil {
		return nil, errNoRepository
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	st, err := dir.lstat(gitName)
	if err != nil {
		return nil, errLeadsNowhere
	}
	if !g.isOwnedBy(st.uid) {
		return nil, errOtherOwner
	}
	if !g.hasHead() {
		return nil, errNoRepository
	}
	r, err := commonOf(g)
	if err != nil {
		return nil, err
	}
	if err = r.claimedBy(base, st.uid); err != nil {
		if r.common != g {
			r.common.close()
		}
		return nil, err
	}
	return r, nil
}

// claimedBy makes the checks of followGitPointer about the whole repository.
func (r *repository) claimedBy(base string, owner uint32) error {
	if !r.isComplete() {
		return errNoRepository
	}
	if !r.common.isOwnedBy(owner) {
		return errOtherOwner
	}
	if !r.pointsTo(base) {
		return errNoBackPointer
	}
	return nil
}

// pointsTo reports whether r is the repository of the worktree at base: that of a
// linked worktree has its .git in the file gitdir, others have it as core.worktree,
// and a submodule's is in the .git/modules of a directory above.
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

// isDirAt reports whether path leads to the directory real.
func isDirAt(path, real string) bool {
	to, err := realDir(path)
	return err == nil && to == real
}

// isTrusted reports whether files of owner may be read as git's configuration: owner is
// this process's user, or owns the tree.
func isTrusted(owner, tree uint32) bool { return owner == tree || !isForeign(owner) }
