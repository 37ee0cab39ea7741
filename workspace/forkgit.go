package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// ownGit sees to it that no .git of the fork leads back into the source's:
//
//   - A .git directory was copied whole, but for symlinks that lead elsewhere: see
//     ownLinks. Its registered worktrees inside the tree now name the fork's; those
//     outside are dropped, since they are the source's.
//   - A .git file or symlink that leads into the tree leads into the fork.
//   - One that leads out of the tree, as a linked worktree's does, becomes a separate
//     repository: what the worktrees share, with this one's HEAD, index and operation
//     in progress. Registering another worktree would write into the user's .git. It
//     is copied only if it names the tree as its worktree: see follow.
//
// Every file of a .git is read and written through directory handles that follow no
// symlink. Nothing of the source is written.
func (f *fork) ownGit(ctx context.Context, from *rootDir, gits []string) error {
	owner, err := from.dir().owner(".")
	if err != nil {
		return err
	}
	for _, at := range gits {
		if err := f.ownOne(ctx, from, owner, at); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// ownOne is ownGit for the .git at the path at.
func (f *fork) ownOne(ctx context.Context, from *rootDir, owner uint32, at string) error {
	dir, err := from.open(dirOf(at))
	if err != nil {
		return err
	}
	defer dir.close()
	theirs, err := dir.owner(".git")
	if err != nil {
		return err
	}
	if !isTrusted(theirs, owner) {
		return refuseGit(filepath.Join(f.from.root, at), errors.New("it belongs to another user"), "remove it or make it yours with chown, then fork again")
	}
	st, err := dir.stat(".git")
	if err != nil {
		return err
	}
	if st.is(typeDir) {
		return f.adjust(at, filepath.Join(f.from.root, at))
	}
	return f.repoint(ctx, from, dir, at)
}

// refuseGit is the error of something in the source, at an absolute path, that cannot
// become the fork's.
func refuseGit(path string, why error, hint string) error {
	return segno.NewError(segno.KindRefused, "copy repository", path, why).WithHint(hint)
}

// moved returns where a path of the source is in the fork; false if it is outside.
func (f *fork) moved(p string) (string, bool) {
	rel, ok := inside(f.from.root, p)
	if !ok {
		return "", false
	}
	return filepath.Join(f.target, rel), true
}

// repoint makes the fork's version of a .git in dir that is not a directory.
func (f *fork) repoint(ctx context.Context, from *rootDir, dir *openDir, at string) error {
	base := filepath.Join(f.from.root, dirOf(at))
	text, to, err := pointer(dir, base)
	if err != nil {
		f.leave(at)
		return nil
	}
	if rel, ok := inside(f.from.root, to); ok {
		return f.redirect(from, dir, at, rel, filepath.IsAbs(text))
	}
	r, err := follow(dir, base, to)
	if err != nil {
		return refuseGit(filepath.Join(f.from.root, at), err, pointerHint(err, base, to))
	}
	defer r.close()
	return f.standAlone(ctx, at, r)
}

// pointerHint says what to do about a .git that is not followed.
func pointerHint(err error, base, to string) string {
	if !errors.Is(err, errNoBackPointer) {
		return "remove the .git, or make it lead to the repository of this directory, then fork again"
	}
	return "if " + to + " is the repository of this directory, run 'git worktree repair' in " + base +
		" or 'git config core.worktree " + base + "', then fork again"
}

// redirect makes a .git that leads to the git directory rel in the tree lead to its
// copy in the fork. The new path is written out, so that no symlink on the old one can
// lead back.
func (f *fork) redirect(from *rootDir, dir *openDir, at, rel string, absolute bool) error {
	if err := f.insideCommon(from, rel); err != nil {
		return refuseGit(filepath.Join(f.from.root, at), err, "remove the .git, or make it lead to the repository of this directory, then fork again")
	}
	text := filepath.Join(f.target, rel)
	if !absolute {
		var err error
		if text, err = filepath.Rel(filepath.Join(f.target, dirOf(at)), text); err != nil {
			return err
		}
	}
	st, err := dir.stat(".git")
	if err != nil {
		return err
	}
	if st.is(typeSymlink) {
		in, name, err := f.to.parent(at)
		if err != nil {
			return err
		}
		return in.Symlink(text, name)
	}
	return f.write(at, []byte("gitdir: "+text+"\n"), 0o644)
}

// insideCommon checks that the git directory rel of the tree shares no repository
// outside the tree.
func (f *fork) insideCommon(from *rootDir, rel string) error {
	text, err := from.text(join(rel, "commondir"), maxGitText)
	if isGone(err) {
		return nil
	}
	if err == nil {
		var real string
		if real, err = realDir(resolve(filepath.Join(f.from.root, rel), strings.TrimRight(text, "\r\n"))); err == nil {
			if _, ok := inside(f.from.root, real); ok {
				return nil
			}
		}
	}
	return errCommon
}

// standAlone makes at a separate repository out of r.
func (f *fork) standAlone(ctx context.Context, at string, r *repository) error {
	in, name, err := f.to.parent(at)
	if err != nil {
		return err
	}
	if err := in.Mkdir(name, 0o755); err != nil {
		return err
	}
	if r.git == r.common {
		err = f.copyGit(ctx, r.git, at, func(p string) bool { return p == "worktrees" })
	} else {
		err = f.copyGit(ctx, r.common, at, perWorktree)
		if err == nil {
			err = f.copyGit(ctx, r.git, at, func(p string) bool { return p == "commondir" || p == "gitdir" || p == "locked" })
		}
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"config", "config.worktree"} {
		if err := f.rewrite(path.Join(at, name), func(text []byte) []byte { return editConfig(text, alone) }); err != nil {
			return err
		}
	}
	return f.adjust(at, r.common.path)
}

// perWorktree reports whether a path in a repository belongs to its main worktree
// alone, or to other worktrees: HEAD and its like, the index, what is in progress.
func perWorktree(p string) bool {
	switch p {
	case "worktrees", "config.worktree", "index", "logs/HEAD", "info/sparse-checkout", "rebase-merge", "rebase-apply",
		"sequencer", "refs/bisect", "refs/worktree", "refs/rewritten":
		return true
	}
	return strings.Trim(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// copyGit copies a git directory, but for what skip names, over what is there.
func (f *fork) copyGit(ctx context.Context, g *gitDir, at string, skip func(string) bool) error {
	in, name, err := f.to.parent(at)
	if err != nil {
		return err
	}
	to, err := enter(in, name)
	if err != nil {
		return err
	}
	defer to.Close()
	all := newFreight()
	keep := func(p string, _ *stat) bool {
		return !skip(p) && !strings.HasSuffix(p, ".lock")
	}
	if err := all.load(g.root, "", keep, func(string) {}); err != nil {
		return err
	}
	links := linkCheck{fork: f, from: g.root, base: g.path, at: at}
	if all.symlinks, err = links.all(all.symlinks); err != nil {
		return err
	}
	c := &copier{from: g.root, to: to, over: true, left: func(p string) { f.leave(path.Join(at, p)) }}
	if err := c.probe(all.files); err != nil {
		return err
	}
	return c.carry(ctx, all)
}

// adjust changes the paths in the copied git directory at that lead to the source. was
// is the directory it was copied from.
func (f *fork) adjust(at, was string) error {
	if _, err := f.read(path.Join(at, "commondir"), maxGitText); !errors.Is(err, fs.ErrNotExist) {
		return refuseGit(was, errors.New("it shares the refs and objects of another repository"),
			"remove the file commondir in it, then fork again")
	}
	trees, err := f.subdirs(path.Join(at, "worktrees"))
	if err != nil {
		return err
	}
	for _, name := range trees {
		if err := f.worktree(path.Join(at, "worktrees", name), filepath.Join(was, "worktrees", name)); err != nil {
			return err
		}
	}
	if err := f.rewrite(path.Join(at, "objects/info/alternates"), func(text []byte) []byte {
		return f.alternates(text, filepath.Join(was, "objects"))
	}); err != nil {
		return err
	}
	for _, name := range []string{"config", "config.worktree"} {
		if err := f.rewrite(path.Join(at, name), func(text []byte) []byte { return editConfig(text, f.moveWorktree(was)) }); err != nil {
			return err
		}
	}
	return f.modules(path.Join(at, "modules"), filepath.Join(was, "modules"), 0)
}

// maxModuleDepth is how many directories of .git/modules may lie in each other. The
// name of a submodule may have slashes.
const maxModuleDepth = 32

// modules adjusts the git directories of submodules below at.
func (f *fork) modules(at, was string, depth int) error {
	names, err := f.subdirs(at)
	if err != nil || depth > maxModuleDepth {
		return err
	}
	for _, name := range names {
		at, was := path.Join(at, name), filepath.Join(was, name)
		_, head, err := f.to.stat(path.Join(at, "HEAD"))
		if err == nil && head {
			err = f.adjust(at, was)
		} else if err == nil {
			err = f.modules(at, was, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// subdirs returns the names of the directories in the fork's directory at. There are
// none if at is not a directory.
func (f *fork) subdirs(at string) (names []string, err error) {
	all, err := f.to.names(at)
	for _, name := range all {
		if st, ok, err := f.to.stat(path.Join(at, name)); err == nil && ok && st.is(typeDir) {
			names = append(names, name)
		}
	}
	return names, err
}

// worktree makes a registered worktree the fork's, or forgets it. was is the directory
// that at was copied from.
func (f *fork) worktree(at, was string) error {
	text, err := f.read(path.Join(at, "gitdir"), maxGitText)
	to := strings.TrimRight(string(text), "\r\n")
	common, commonErr := f.read(path.Join(at, "commondir"), maxGitText)
	shared := strings.TrimRight(string(common), "\r\n")
	there, ok := f.moved(resolve(was, to))
	if err != nil || commonErr != nil || !ok || resolve(was, shared) != filepath.Dir(filepath.Dir(was)) {
		in, name, err := f.to.parent(at)
		if err != nil {
			return err
		}
		return removeAll(in, name)
	}
	if filepath.IsAbs(shared) {
		if err := f.write(path.Join(at, "commondir"), []byte("../..\n"), 0o644); err != nil {
			return err
		}
	}
	if filepath.IsAbs(to) {
		return f.write(path.Join(at, "gitdir"), []byte(there+"\n"), 0o644)
	}
	return nil // relative, and moved with the tree
}

// alternates makes relative paths to other object directories absolute, since the
// fork may stand elsewhere.
func (f *fork) alternates(text []byte, objects string) []byte {
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		p := strings.TrimRight(line, "\n")
		if p != "" && p[0] != '#' {
			p = resolve(objects, p)
			if there, ok := f.moved(p); ok {
				p = there
			}
		}
		out.WriteString(p + "\n")
	}
	return out.Bytes()
}

// read returns the content of a regular file of the fork, of at most limit bytes.
func (f *fork) read(at string, limit int64) ([]byte, error) {
	in, name, err := f.to.parent(at)
	if isAbsent(err) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	fi, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > limit {
		return nil, errNotRegular
	}
	file, err := in.OpenFile(name, readFlags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	buf := make([]byte, fi.Size())
	n, err := file.ReadAt(buf, 0)
	if n == len(buf) {
		err = nil
	}
	return buf[:n], err
}

// rewrite changes a file of the fork, if there is one, and leaves its mode as it is.
func (f *fork) rewrite(at string, change func([]byte) []byte) error {
	text, err := f.read(at, maxGitConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, errNotRegular) {
		return refuseGit(filepath.Join(f.from.root, at), errors.New("it is not a regular file of at most a mebibyte"), "make it one, then fork again")
	}
	if err != nil {
		return err
	}
	next := change(text)
	if bytes.Equal(next, text) {
		return nil
	}
	st, _, err := f.to.stat(at)
	if err != nil {
		return err
	}
	return f.write(at, next, fs.FileMode(st.perm()&0o777))
}

func (f *fork) write(at string, data []byte, perm fs.FileMode) error {
	in, name, err := f.to.parent(at)
	if err != nil {
		return err
	}
	return vfs.Replace(in, name, data, perm)
}
