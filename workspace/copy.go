package workspace

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// The limits for copying a protected path if the file system does not support reflinks.
const (
	maxCopyBytes   = 1 << 30
	maxCopyEntries = 100_000
)

// copyList lists the paths to copy: everything below one directory of a tree or of a git
// directory.
type copyList struct {
	dirs     []copyItem // parents first
	files    []copyItem
	symlinks []copyItem
	links    []copyItem // additional names of files
	bytes    int64
	gits     []string // paths of .git in a tree

	seen   map[inode]string
	budget budget // directories beyond it are left out
}

// copyItem is one path to copy. The path is the same in the source and the copy.
type copyItem struct {
	path string
	st   stat
	note string // the target of a symlink, the first name of a hard link
}

func newCopyList(b budget) *copyList { return &copyList{seen: make(map[inode]string), budget: b} }

func (l *copyList) size() int { return len(l.dirs) + len(l.files) + len(l.symlinks) + len(l.links) }

// keepFunc reports whether to copy a path.
type keepFunc func(path string, st *stat) bool

// addBelow adds everything below dir for which keep returns true. It calls leaveOut for entries
// that are not files, directories or symlinks, and for directories that are too deep.
func (l *copyList) addBelow(from *treeReader, dir string, keep keepFunc, leaveOut func(path string)) error {
	d, err := from.dir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	var below []string
	err = d.list(make([]byte, direntBytes), func(name []byte, st *stat, err error) {
		p := join(dir, string(name))
		switch {
		case err != nil:
			leaveOut(p)
		case !st.is(typeDir) && isTemp(string(name)) || !keep(p, st):
		case st.is(typeDir) && l.budget.tooDeep(dir, string(name)) != "":
			leaveOut(p)
		case st.is(typeDir):
			l.dirs = append(l.dirs, copyItem{path: p, st: *st})
			below = append(below, p)
		case !l.add(d, string(name), copyItem{path: p, st: *st}):
			leaveOut(p)
		}
	})
	for _, p := range below {
		if err == nil || isGone(err) {
			err = l.addBelow(from, p, keep, leaveOut)
		}
	}
	return ignoreGone(err)
}

// ignoreGone returns err, or nil if err means that a name does not exist.
func ignoreGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// add adds a file or symlink. It returns false for any other type.
func (l *copyList) add(d *dirHandle, name string, p copyItem) bool {
	switch p.st.mode & typeMask {
	case typeSymlink:
		target, err := d.readlink(name)
		if err != nil {
			return false
		}
		p.note = target
		l.symlinks = append(l.symlinks, p)
	case typeFile:
		id := inode{p.st.dev, p.st.ino}
		if first, ok := l.seen[id]; ok {
			p.note = first
			l.links = append(l.links, p)
			return true
		}
		if p.st.nlink > 1 {
			l.seen[id] = p.path
		}
		l.files = append(l.files, p)
		l.bytes += p.st.size
	default:
		return false
	}
	return true
}

// addAll adds the items of other to l.
func (l *copyList) addAll(other *copyList) {
	l.dirs = append(l.dirs, other.dirs...)
	l.files = append(l.files, other.files...)
	l.symlinks = append(l.symlinks, other.symlinks...)
	l.links = append(l.links, other.links...)
	l.bytes += other.bytes
	l.gits = append(l.gits, other.gits...)
}

// copyPresent copies the current tree to the temporary directory of the fork.
func (f *fork) copyPresent(ctx context.Context, view *view) (*copyList, error) {
	all := newCopyList(f.from.budget)
	guarded := all.addScanned(view.top, nil)
	c := &copier{from: view.root, to: f.to.top, leaveOut: f.leaveOut}
	if err := c.probe(all.files); err != nil {
		return nil, err
	}
	f.how = "copy"
	if c.reflinks.Load() {
		f.how = "reflink"
	}
	reader := &treeReader{top: view.root}
	defer reader.close()
	for _, g := range guarded {
		f.addGuarded(reader, all, g, c.reflinks.Load())
	}
	links := linkCheck{fork: f, from: view.root, base: f.from.root}
	var err error
	if all.symlinks, err = links.checkAll(all.symlinks); err != nil {
		return nil, err
	}
	return all, c.copyAll(ctx, all)
}

// addScanned adds the entries at and below n, except protected ones, which it appends to guarded.
func (l *copyList) addScanned(n *node, guarded []copyItem) []copyItem {
	for i := range n.entries {
		e := &n.entries[i]
		item := copyItem{path: join(n.path, e.name), st: e.st, note: e.note}
		switch {
		case e.name == gitName && !e.st.is(typeDir):
			l.gits = append(l.gits, item.path) // makeGitIndependent writes a new one
		case e.kind == kindProtected:
			guarded = append(guarded, item)
		case e.kind == kindDir:
			l.dirs = append(l.dirs, item)
			guarded = l.addScanned(e.child, guarded)
		case e.kind == kindSymlink:
			l.symlinks = append(l.symlinks, item)
		case e.kind == kindHardLink:
			l.links = append(l.links, item)
		default:
			l.files = append(l.files, item)
		}
	}
	return guarded
}

func (f *fork) leaveOut(p string) { f.leftOut = append(f.leftOut, p) }

// addGuarded adds one protected path, unless it must be left out.
func (f *fork) addGuarded(from *treeReader, all *copyList, g copyItem, reflinks bool) {
	part := newCopyList(f.from.budget)
	switch {
	case g.note == segno.WhyDatabase: // package internal/database copies it
		return
	case slices.Contains([]string{whyOwn, whyUnreadable, whyDeep, whyFIFO, whySocket, whyDevice}, g.note):
		f.leaveOut(g.path)
		return
	case g.st.is(typeDir):
		if err := f.addGuardedDir(from, part, g); err != nil {
			f.leaveOut(g.path)
			return
		}
	case g.st.is(typeFile):
		part.files, part.bytes = append(part.files, g), g.st.size
	default:
		part.symlinks = append(part.symlinks, g)
	}
	if g.note != whyGit && !reflinks && (part.bytes > maxCopyBytes || part.size() > maxCopyEntries) {
		f.leaveOut(g.path)
		return
	}
	all.addAll(part)
	f.guarded = append(f.guarded, g.path)
}

// addGuardedDir is addGuarded for a directory.
func (f *fork) addGuardedDir(from *treeReader, part *copyList, g copyItem) error {
	part.dirs = append(part.dirs, g)
	if g.note != whyGit {
		return part.addBelow(from, g.path, func(p string, st *stat) bool {
			if !isGitPath(p) {
				return true
			}
			part.gits = append(part.gits, p)
			return st.is(typeDir) // makeGitIndependent writes a .git that is not a directory
		}, f.leaveOut)
	}
	part.gits = append(part.gits, g.path)
	return part.addBelow(from, g.path, func(p string, _ *stat) bool {
		return path.Dir(p) != g.path || !strings.HasSuffix(p, ".lock") // a lock belongs to a running git
	}, func(string) {}) // leave out such as the socket of a daemon without a report
}

// copier copies the items of a copyList from one tree to another.
type copier struct {
	from     *dirHandle
	to       vfs.Root
	replace  bool        // whether to replace existing files
	reflinks atomic.Bool // whether the file system supports reflinks
	mu       sync.Mutex
	leaveOut func(string) // called with each path that cannot be read
}

// copyAll copies all items. It sets the modes of directories last, because it must write into them
// first.
func (c *copier) copyAll(ctx context.Context, l *copyList) error {
	to, from := &treeWriter{top: c.to}, &treeReader{top: c.from}
	defer to.closeDirs()
	defer from.close()
	for _, d := range l.dirs {
		err := to.in(d.path, func(at vfs.Root, name string) error { return at.Mkdir(name, 0o700) })
		if err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := newQueue(l.files).run(ctx, func() (func(copyItem) error, func()) {
		to, from := &treeWriter{top: c.to}, &treeReader{top: c.from}
		return func(p copyItem) error { return c.copyFile(to, from, p) }, func() { to.closeDirs(); from.close() }
	}); err != nil {
		return err
	}
	for _, s := range l.symlinks {
		if err := to.in(s.path, func(at vfs.Root, name string) error { return at.Symlink(s.note, name) }); err != nil {
			return err
		}
	}
	for _, s := range l.links {
		if err := c.to.Link(s.note, s.path); err != nil && !isGone(err) {
			return err
		}
	}
	for _, d := range slices.Backward(l.dirs) {
		if err := to.in(d.path, func(at vfs.Root, name string) error { return finishDir(at, name, from, d) }); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies one file. It leaves out a file that cannot be read, and ignores a file that no
// longer exists, because the fork writes missing files from the store afterwards.
func (c *copier) copyFile(to *treeWriter, from *treeReader, p copyItem) error {
	src, st, err := from.openRegular(p.path)
	if isGone(err) {
		return nil
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leaveOut(p.path)
		return nil
	}
	defer src.close()
	return to.in(p.path, func(at vfs.Root, name string) error { return c.fill(at, name, src, st) })
}

// fill copies src to the file called name.
func (c *copier) fill(at vfs.Root, name string, src *fileHandle, st stat) error {
	if c.replace {
		if err := at.Remove(name); err != nil && !isGone(err) {
			return err
		}
	}
	dst, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	if err := c.copyContent(dst, src); err != nil {
		return err
	}
	if err := copyXattrs(dst, src.fd); err != nil {
		return err
	}
	if err := dst.Chmod(fileMode(st.perm() &^ setIDs)); err != nil { // allowed, because this user owns the copy
		return err
	}
	if err := dst.Close(); err != nil {
		return err
	}
	return at.Chtimes(name, time.Time{}, time.Unix(0, st.mtime))
}

// copyContent copies the content of src to dst by the cheapest method that the file system
// supports.
func (c *copier) copyContent(dst vfs.File, src *fileHandle) error {
	if c.reflinks.Load() {
		if err := reflink(dst, src); err == nil {
			return nil
		}
		c.reflinks.Store(false)
	}
	if !src.sparse {
		if done, err := copyInKernel(dst, src); done || err != nil {
			return err
		}
	}
	return writeContent(dst, src)
}

// copyXattrs copies the extended attributes of the file or directory that is open as from.
func copyXattrs(dst vfs.File, from int) error {
	attrs, err := listXattrs(from)
	if err != nil || len(attrs) == 0 {
		return err
	}
	return writeXattrs(dst.Fd(), attrs)
}

// finishDir sets the attributes and the mode of p on the directory called name.
func finishDir(at vfs.Root, name string, from *treeReader, p copyItem) error {
	to, err := at.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	if dir, err := from.dir(p.path); err == nil {
		if err := copyXattrs(to, dir.fd); err != nil {
			return err
		}
	}
	return to.Chmod(fileMode(p.st.perm() &^ setIDs))
}

// probeName is the name of the file that probe writes into the empty copy.
const probeName = ".segno-probe"

// probe tests whether the file system supports reflinks, with the first file that is not empty.
func (c *copier) probe(files []copyItem) error {
	i := slices.IndexFunc(files, func(p copyItem) bool { return p.st.size > 0 })
	if i < 0 {
		return nil
	}
	src, _, err := c.from.openRegular(files[i].path)
	if err != nil {
		return nil // copyFile will report it
	}
	defer src.close()
	dst, err := c.to.OpenFile(probeName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	c.reflinks.Store(reflink(dst, src) == nil)
	return c.to.Remove(probeName)
}
