package workspace

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// maxGitText is the size up to which a small file of git's is read: HEAD, a ref,
// commondir, gitdir, a .git file. git itself writes a line or two into each.
const maxGitText = 64 << 10

// gitDir is an open git directory. No symlink leads to it, and none below it is
// followed. Its files are opened only if they are regular, so that a FIFO or a
// device in their place neither blocks the reader nor feeds it without end.
type gitDir struct {
	path string // absolute, symlinks resolved
	root *rootDir
}

// openGitDir opens the git directory at an absolute path without symlinks.
func openGitDir(path string) (*gitDir, error) {
	root, err := openRealDir(path)
	if err != nil {
		return nil, err
	}
	return &gitDir{path, root}, nil
}

func (g *gitDir) close() { g.root.close() }

// openRealDir opens a directory by its absolute path, no component of which is a
// symlink.
func openRealDir(path string) (*rootDir, error) {
	top, err := openRootDir("/")
	if err != nil || path == "/" {
		return top, err
	}
	defer top.close()
	dir, err := top.open(strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return dir.asRoot(top), nil
}

// errNotRegular is the error of reading what is not a regular file.
var errNotRegular = errors.New("not a regular file")

// text returns the content of the regular file at rel, which has at most limit
// bytes.
func (r *rootDir) text(rel string, limit int64) (string, error) {
	if !strings.Contains(rel, "/") {
		return r.dir().text(rel, limit)
	}
	dir, err := r.open(dirOf(rel))
	if err != nil {
		return "", err
	}
	defer dir.close()
	return dir.text(path.Base(rel), limit)
}

func (d *openDir) text(name string, limit int64) (string, error) {
	st, err := d.stat(name)
	if err != nil {
		return "", err
	}
	if !st.is(typeFile) {
		return "", errNotRegular
	}
	data, err := d.readAll(name, limit)
	return string(data), err
}

// line returns the content of a file that holds one line.
func (g *gitDir) line(rel string) (string, error) {
	text, err := g.root.text(rel, maxGitText)
	return strings.TrimRight(text, "\r\n"), err
}

// lstat looks at what is at rel, a symlink as such.
func (r *rootDir) lstat(rel string) (stat, error) {
	if !strings.Contains(rel, "/") {
		return r.dir().stat(rel)
	}
	dir, err := r.open(dirOf(rel))
	if err != nil {
		return stat{}, err
	}
	defer dir.close()
	return dir.stat(path.Base(rel))
}

func (g *gitDir) exists(rel string) bool {
	_, err := g.root.lstat(rel)
	return err == nil
}

// isDir reports whether rel is a directory that no symlink leads to.
func (g *gitDir) isDir(rel string) bool {
	st, err := g.root.lstat(rel)
	return err == nil && st.is(typeDir)
}

// hasHead reports whether HEAD is a file, or the symlink into refs that old
// versions of git made.
func (g *gitDir) hasHead() bool {
	st, err := g.root.lstat("HEAD")
	return err == nil && (st.is(typeFile) || st.is(typeSymlink) && g.linkedHead() != "")
}

// linkedHead returns the ref that HEAD names as a symlink, or "".
func (g *gitDir) linkedHead() string {
	dir := g.root.dir()
	if ref, err := dir.readlink("HEAD"); err == nil && strings.HasPrefix(ref, "refs/") {
		return ref
	}
	return ""
}

// repository is a git directory and the one that has what its worktrees share.
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
	to, err := g.line("commondir")
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
	errLeadsNowhere  = errors.New("it leads nowhere")
	errNoRepository  = errors.New("what it names is not a repository")
	errOtherOwner    = errors.New("what it names belongs to another user")
	errNoBackPointer = errors.New("the repository it names does not name this directory as its worktree")
)

// pointer returns the directory that the .git file or symlink in dir names: text as it is
// written there, and real with symlinks resolved. base is the absolute path of dir.
func pointer(dir *openDir, base string) (text, real string, err error) {
	st, err := dir.stat(".git")
	if err != nil {
		return "", "", err
	}
	if st.is(typeSymlink) {
		text, err = dir.readlink(".git")
	} else {
		var ok bool
		if text, err = dir.text(".git", maxGitText); err == nil {
			if text, ok = strings.CutPrefix(text, "gitdir: "); !ok {
				err = errLeadsNowhere
			}
		}
		text = strings.TrimRight(text, "\r\n")
	}
	if err == nil && strings.ContainsRune(text, 0) {
		err = errLeadsNowhere
	}
	if err != nil {
		return "", "", errLeadsNowhere
	}
	if real, err = realDir(resolve(base, text)); err != nil {
		return "", "", errLeadsNowhere
	}
	return text, real, nil
}

// follow opens the repository at real, which the .git file or symlink in dir names.
// It does so only if that is a repository, has the same owner as the .git, and names
// base, the absolute path of dir, as its worktree: otherwise a .git could claim any
// directory, and a fork would copy it.
func follow(dir *openDir, base, real string) (_ *repository, err error) {
	g, err := openGitDir(real)
	if err != nil {
		return nil, errNoRepository
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	owner, err := dir.owner(".git")
	if err != nil {
		return nil, errLeadsNowhere
	}
	if theirs, err := g.root.dir().owner("."); err != nil || theirs != owner {
		return nil, errOtherOwner
	}
	if !g.hasHead() {
		return nil, errNoRepository
	}
	r, err := commonOf(g)
	if err != nil {
		return nil, err
	}
	if err = r.claimedBy(base, owner); err != nil {
		if r.common != g {
			r.common.close()
		}
		return nil, err
	}
	return r, nil
}

// claimedBy checks the rest of what follow does.
func (r *repository) claimedBy(base string, owner uint32) error {
	if !r.isComplete() {
		return errNoRepository
	}
	if theirs, err := r.common.root.dir().owner("."); err != nil || theirs != owner {
		return errOtherOwner
	}
	if !r.pointsTo(base) {
		return errNoBackPointer
	}
	return nil
}

// pointsTo reports whether r is the repository of the worktree at base: that of a
// linked worktree has its .git in the file gitdir, others have it as core.worktree,
// and a submodule's lies in the .git/modules of a directory above.
func (r *repository) pointsTo(base string) bool {
	if r.git != r.common {
		to, err := r.git.line("gitdir")
		if err != nil || filepath.Base(to) != ".git" {
			return false
		}
		return isDirAt(resolve(r.git.path, filepath.Dir(to)), base)
	}
	if text, err := r.git.root.text("config", maxGitConfig); err == nil {
		if tree, ok := worktreeOf([]byte(text)); ok {
			return isDirAt(resolve(r.git.path, tree), base)
		}
	}
	for _, up := range upwards(base)[1:] {
		if in, ok := inside(filepath.Join(up, ".git", "modules"), r.git.path); ok && in != "" {
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

// isTrusted reports whether what owner owns may be read as git's configuration: it
// belongs to this process's user, or to the owner of the tree.
func isTrusted(owner, tree uint32) bool { return owner == tree || !isForeign(owner) }
