package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// makeGitIndependent ensures that no .git of the fork refers to the source's:
//
//   - A .git directory was copied whole, except symlinks out of it: see linkCheck. Its
//     registered worktrees inside the tree are changed to the fork's; those outside are
//     dropped, since they belong to the source.
//   - A .git file or symlink to a path in the tree is changed to that path in the fork.
//   - One to a path out of the tree, as a linked worktree has, becomes a separate
//     repository: the files that worktrees share, with this one's HEAD, index and operation
//     in progress. Registering another worktree would write into the user's .git. It
//     is copied only under the conditions of followGitPointer.
//
// All files of a .git are read and written through directory handles that follow no symlink.
// The source is never written.
func (f *fork) makeGitIndependent(ctx context.Context, from *dirHandle, gits []string) error {
	self, err := from.lstat("")
	if err != nil {
		return err
	}
	for _, at := range gits {
		if err := f.makeOneIndependent(ctx, from, self.uid, at); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// makeOneIndependent is makeGitIndependent for the .git, or the repository of worktrees, at the path at.
func (f *fork) makeOneIndependent(ctx context.Context, from *dirHandle, owner uint32, at string) error {
	dir, err := from.openDir(dirOf(at))
	if err != nil {
		return err
	}
	defer dir.close()
	st, err := dir.lstat(path.Base(at))
	if err != nil {
		return err
	}
	source := filepath.Join(f.from.root, at)
	if !isTrusted(st.uid, owner) {
		return refuseGit(source, errors.New("it belongs to another user"), "remove it or make it yours with chown, then fork again")
	}
	if st.is(typeDir) {
		return f.adjust(at, source)
	}
	base := filepath.Dir(source)
	text, to, err := readGitPointer(dir, base)
	if err != nil {
		f.leaveOut(at)
		return nil
	}
	if rel, ok := inside(f.from.root, to); ok {
		return f.redirect(from, at, rel, st.is(typeSymlink), filepath.IsAbs(text))
	}
	r, err := followGitPointer(dir, base, to)
	if errors.Is(err, errNoBackPointer) {
		return refuseGit(source, err, "if "+to+" is the repository of this directory, run 'git worktree repair' in "+base+
			" or 'git config core.worktree "+base+"', then fork again")
	}
	if err != nil {
		return refuseGit(source, err, hintPointer)
	}
	defer r.close()
	return f.copyRepository(ctx, at, r)
}

const hintPointer = "remove the .git, or make it lead to the repository of this directory, then fork again"

// refuseGit returns the error about a path of the source that cannot be copied to the fork.
func refuseGit(path string, why error, hint string) error {
	return segno.NewError(segno.KindRefused, "copy repository", path, why).WithHint(hint)
}

// inFork returns the path in the fork for a path in the source. It returns false if the path is
// outside the tree.
func (f *fork) inFork(p string) (string, bool) {
	rel, ok := inside(f.from.root, p)
	if !ok {
		return "", false
	}
	return filepath.Join(f.target, rel), true
}

// redirect writes the fork's version of a .git file or symlink to the git directory rel in the
// tree. It writes the resolved path, so that no symlink in the old path can refer to the
// source.
func (f *fork) redirect(from *dirHandle, at, rel string, isLink, absolute bool) error {
	if !f.isCommonInside(from, rel) {
		return refuseGit(filepath.Join(f.from.root, at), errCommon, hintPointer)
	}
	text := filepath.Join(f.target, rel)
	if !absolute {
		var err error
		if text, err = filepath.Rel(filepath.Join(f.target, dirOf(at)), text); err != nil {
			return err
		}
	}
	if isLink {
		return f.to.in(at, func(in vfs.Root, name string) error { return in.Symlink(text, name) })
	}
	return f.to.replaceFile(at, []byte("gitdir: "+text+"\n"), 0o644)
}

// isCommonInside reports whether the git directory rel shares only repositories inside the
// tree.
func (f *fork) isCommonInside(from *dirHandle, rel string) bool {
	text, err := from.readLine(join(rel, "commondir"))
	if err != nil {
		return isGone(err)
	}
	real, err := realDir(resolve(filepath.Join(f.from.root, rel), text))
	if err != nil {
		return false
	}
	_, ok := inside(f.from.root, real)
	return ok
}

// copyRepository copies r to a separate repository at the path at.
func (f *fork) copyRepository(ctx context.Context, at string, r *repository) error {
	err := f.to.in(at, func(in vfs.Root, name string) error { return in.Mkdir(name, 0o755) })
	if err != nil {
		return err
	}
	if r.git == r.common {
		err = f.copyGit(ctx, r.git, at, func(p string) bool { return p == "worktrees" })
	} else {
		err = f.copyGit(ctx, r.common, at, isPerWorktree)
		if err == nil {
			err = f.copyGit(ctx, r.git, at, func(p string) bool { return p == "commondir" || p == "gitdir" || p == "locked" })
		}
	}
	if err == nil {
		err = f.editConfigs(at, dropWorktree)
	}
	if err != nil {
		return err
	}
	return f.adjust(at, r.common.path)
}

// editConfigs edits the configurations in a git directory of the fork.
func (f *fork) editConfigs(at string, change func(s *setting) (string, bool)) error {
	for _, name := range []string{"config", "config.worktree"} {
		if err := f.edit(path.Join(at, name), func(text []byte) []byte { return editConfig(text, change) }); err != nil {
			return err
		}
	}
	return nil
}

// isPerWorktree reports whether a path in a repository belongs only to its main worktree, or to
// other worktrees: HEAD and similar refs, the index, an operation in progress.
func isPerWorktree(p string) bool {
	switch p {
	case "worktrees", "config.worktree", "index", "logs/HEAD", "info/sparse-checkout", "rebase-merge", "rebase-apply",
		"sequencer", "refs/bisect", "refs/worktree", "refs/rewritten":
		return true
	}
	return strings.Trim(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// copyGit copies a git directory, except the paths for which skip returns true, and replaces
// existing files.
func (f *fork) copyGit(ctx context.Context, g *gitDir, at string, skip func(string) bool) error {
	to, err := f.to.dir(at)
	if err != nil {
		return err
	}
	all, from := newCopyList(f.from.budget), &treeReader{top: g.dirHandle}
	defer from.close()
	keep := func(p string, _ *stat) bool {
		return !skip(p) && !strings.HasSuffix(p, ".lock")
	}
	if err := all.addBelow(from, "", keep, func(string) {}); err != nil {
		return err
	}
	links := linkCheck{fork: f, from: g.dirHandle, base: g.path, at: at, isGit: true}
	if all.symlinks, err = links.checkAll(all.symlinks); err != nil {
		return err
	}
	c := &copier{from: g.dirHandle, to: to, replace: true, leaveOut: func(p string) { f.leaveOut(path.Join(at, p)) }}
	if err := c.probe(all.files); err != nil {
		return err
	}
	return c.copyAll(ctx, all)
}

// adjust changes the paths that refer to the source in the copied git directory at. was is the
// directory from which at was copied.
func (f *fork) adjust(at, was string) error {
	if _, err := f.copied.readFile(path.Join(at, "commondir"), maxGitText); !isAbsent(err) {
		return refuseGit(was, errors.New("it shares the refs and objects of another repository"),
			"remove the file commondir in it, then fork again")
	}
	trees, err := f.subdirs(path.Join(at, "worktrees"))
	if err != nil {
		return err
	}
	for _, name := range trees {
		if err := f.adjustWorktree(path.Join(at, "worktrees", name), filepath.Join(was, "worktrees", name)); err != nil {
			return err
		}
	}
	if err := f.edit(path.Join(at, "objects/info/alternates"), func(text []byte) []byte {
		return f.adjustAlternates(text, filepath.Join(was, "objects"))
	}); err != nil {
		return err
	}
	if err := f.editConfigs(at, f.moveWorktree(was)); err != nil {
		return err
	}
	return f.adjustModules(path.Join(at, "modules"), filepath.Join(was, "modules"), 0)
}

// maxModuleDepth is the largest depth of directories in .git/modules. They may be nested,
// because the name of a submodule may contain slashes.
const maxModuleDepth = 32

// adjustModules adjusts the git directories of submodules below at.
func (f *fork) adjustModules(at, was string, depth int) error {
	names, err := f.subdirs(at)
	if err != nil || depth > maxModuleDepth {
		return err
	}
	for _, name := range names {
		at, was := path.Join(at, name), filepath.Join(was, name)
		_, hasHead, err := f.copied.find(path.Join(at, "HEAD"))
		if err == nil && hasHead {
			err = f.adjust(at, was)
		} else if err == nil {
			err = f.adjustModules(at, was, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// subdirs returns the names of the directories in the fork's directory at, or none if at is not
// a directory.
func (f *fork) subdirs(at string) ([]string, error) {
	names, err := f.copied.names(at)
	return slices.DeleteFunc(names, func(name string) bool { return !f.copied.isDir(path.Join(at, name)) }), err
}

// adjustWorktree assigns a registered worktree to the fork, or removes it. was is the directory
// from which at was copied.
func (f *fork) adjustWorktree(at, was string) error {
	to, err := f.copied.readLine(path.Join(at, "gitdir"))
	shared, commonErr := f.copied.readLine(path.Join(at, "commondir"))
	inFork, ok := f.inFork(resolve(was, to))
	if err != nil || commonErr != nil || !ok || resolve(was, shared) != filepath.Dir(filepath.Dir(was)) {
		return f.to.in(at, removeAll)
	}
	if filepath.IsAbs(shared) {
		if err := f.to.replaceFile(path.Join(at, "commondir"), []byte("../..\n"), 0o644); err != nil {
			return err
		}
	}
	if filepath.IsAbs(to) {
		return f.to.replaceFile(path.Join(at, "gitdir"), []byte(inFork+"\n"), 0o644)
	}
	return nil // a relative path is still correct in the fork
}

// adjustAlternates makes relative paths to other object directories absolute, because the fork
// may be in another place.
func (f *fork) adjustAlternates(text []byte, objects string) []byte {
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		p := strings.TrimRight(line, "\n")
		if p != "" && p[0] != '#' {
			p = resolve(objects, p)
			if inFork, ok := f.inFork(p); ok {
				p = inFork
			}
		}
		out.WriteString(p + "\n")
	}
	return out.Bytes()
}

// edit changes a file of the fork, if it exists, and keeps its mode.
func (f *fork) edit(at string, change func([]byte) []byte) error {
	text, err := f.copied.readFile(at, maxGitConfig)
	if isAbsent(err) {
		return nil
	}
	if errors.Is(err, errNotRegular) {
		return refuseGit(filepath.Join(f.from.root, at), errors.New("it is not a regular file of at most a mebibyte"),
			"make it one, then fork again")
	}
	if err != nil {
		return err
	}
	next := change(text)
	if bytes.Equal(next, text) {
		return nil
	}
	st, err := f.copied.lstat(at)
	if err != nil {
		return err
	}
	return f.to.replaceFile(at, next, fs.FileMode(st.perm()&0o777))
}
