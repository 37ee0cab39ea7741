package workspace

import (
	"context"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// The size up to which a protected path is copied where it cannot be cloned.
const (
	maxCopyBytes   = 1 << 30
	maxCopyEntries = 100_000
)

// freight is what there is to copy: everything below one directory, of a tree or
// of a git directory.
type freight struct {
	dirs     []piece // parents first
	files    []piece
	symlinks []piece
	links    []piece // further names of files
	bytes    int64
	gits     []string // paths of .git in a tree

	seen map[inode]string
}

// piece is one path to copy. Paths are the same on both sides.
type piece struct {
	path string
	st   stat
	note string // a symlink's target, a link's first name
}

func (f *freight) size() int { return len(f.dirs) + len(f.files) + len(f.symlinks) + len(f.links) }

// load adds everything below dir for which keep returns true. What is neither a
// file, a directory nor a symlink is passed to left.
func (f *freight) load(from *rootDir, dir string, keep func(path string, st *stat) bool, left func(path string)) error {
	below, err := f.list(from, dir, keep, left)
	if err != nil {
		return err
	}
	for _, p := range below {
		if err := f.load(from, p, keep, left); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// list adds the entries of dir, and returns the directories among them. dir is closed
// when it returns: a deep tree must not keep a directory open for each level.
func (f *freight) list(from *rootDir, dir string, keep func(path string, st *stat) bool, left func(path string)) (below []string, err error) {
	d, err := from.open(dir)
	if err != nil {
		return nil, err
	}
	defer d.close()
	buf := make([]byte, 32<<10)
	err = d.read(buf, func(name []byte, st *stat, err error) {
		p := join(dir, string(name))
		switch {
		case err != nil:
			left(p)
		case isTemp(name) && !st.is(typeDir) || !keep(p, st):
		case st.is(typeDir):
			f.dirs = append(f.dirs, piece{path: p, st: *st})
			below = append(below, p)
		default:
			f.add(d, string(name), piece{path: p, st: *st}, left)
		}
	})
	return below, err
}

// add adds what is no directory.
func (f *freight) add(d *openDir, name string, p piece, left func(string)) {
	switch p.st.mode & typeMask {
	case typeSymlink:
		target, err := d.readlink(name)
		if err != nil {
			left(p.path)
			return
		}
		p.note = target
		f.symlinks = append(f.symlinks, p)
	case typeFile:
		id := inode{p.st.dev, p.st.ino}
		if first, ok := f.seen[id]; ok {
			p.note = first
			f.links = append(f.links, p)
			return
		}
		if p.st.nlink > 1 {
			f.seen[id] = p.path
		}
		f.files = append(f.files, p)
		f.bytes += p.st.size
	default:
		left(p.path)
	}
}

// merge adds other to f.
func (f *freight) merge(other *freight) {
	f.dirs = append(f.dirs, other.dirs...)
	f.files = append(f.files, other.files...)
	f.symlinks = append(f.symlinks, other.symlinks...)
	f.links = append(f.links, other.links...)
	f.bytes += other.bytes
	f.gits = append(f.gits, other.gits...)
}

func newFreight() *freight { return &freight{seen: make(map[inode]string)} }

// copyPresent copies the tree as it is now to the fork's temporary place.
func (f *fork) copyPresent(ctx context.Context, view *view) (*freight, error) {
	all := newFreight()
	reasons := make(map[string]string)
	view.top.protected(reasons)
	var guarded []piece
	keep := func(p string, st *stat) bool {
		why := reasons[p]
		switch {
		case path.Base(p) == ".git" && !st.is(typeDir):
			all.gits = append(all.gits, p) // a pointer is never copied as it is: see ownGit
		case why != "":
			guarded = append(guarded, piece{path: p, st: *st, note: why})
		default:
			return true
		}
		return false
	}
	if err := all.load(view.root, "", keep, f.leave); err != nil {
		return nil, err
	}
	c := &copier{from: view.root, to: f.to.top, left: f.leave}
	if err := c.probe(all.files); err != nil {
		return nil, err
	}
	f.how = c.how()
	for _, g := range guarded {
		if err := f.loadGuarded(view.root, all, g, c.clones.Load()); err != nil {
			return nil, err
		}
	}
	var err error
	if all.symlinks, err = f.ownLinks(view.root, all.symlinks); err != nil {
		return nil, err
	}
	return all, c.carry(ctx, all)
}

// protected adds the protected paths below n and why they are.
func (n *node) protected(reasons map[string]string) {
	for i := range n.entries {
		switch e := &n.entries[i]; e.kind {
		case kindProtected:
			reasons[join(n.path, e.name)] = e.note
		case kindDir:
			e.child.protected(reasons)
		}
	}
}

func (f *fork) leave(p string) { f.leftOut = append(f.leftOut, p) }

// loadGuarded adds one protected path, unless it has to be left out.
func (f *fork) loadGuarded(from *rootDir, all *freight, g piece, clones bool) error {
	isGit := g.note == whyGit
	part := newFreight()
	switch {
	case g.note == whyOwn || g.note == whyUnreadable || g.note == whyDeep || g.note == whyFIFO || g.note == whySocket || g.note == whyDevice:
		f.leave(g.path)
		return nil
	case g.st.is(typeDir):
		part.dirs = append(part.dirs, g)
		if isGit {
			part.gits = append(part.gits, g.path)
		}
		keep := func(p string, st *stat) bool {
			if !isGit && path.Base(p) == ".git" {
				part.gits = append(part.gits, p)
				return st.is(typeDir) // a pointer is never copied as it is: see ownGit
			}
			return !isGit || path.Dir(p) != g.path || !strings.HasSuffix(p, ".lock") // held by a git at work
		}
		left := f.leave
		if isGit {
			left = func(string) {} // the socket of a daemon
		}
		if err := part.load(from, g.path, keep, left); err != nil {
			f.leave(g.path)
			return nil
		}
	case g.st.is(typeFile):
		part.files, part.bytes = append(part.files, g), g.st.size
	default:
		part.symlinks = append(part.symlinks, g)
	}
	if !isGit && !clones && (part.bytes > maxCopyBytes || part.size() > maxCopyEntries) {
		f.leave(g.path)
		return nil
	}
	all.merge(part)
	return nil
}

// copier carries freight from one tree to another.
type copier struct {
	from   *rootDir
	to     vfs.Root
	over   bool        // what is there already is replaced
	clones atomic.Bool // the file system makes reflinks
	mu     sync.Mutex
	left   func(string) // is told what could not be copied
}

func (c *copier) how() string {
	if c.clones.Load() {
		return "reflink"
	}
	return "copy"
}

// carry copies everything. Directories get their modes last, so that they can be
// filled.
func (c *copier) carry(ctx context.Context, f *freight) error {
	to := &hands{top: c.to}
	defer to.letGo(0)
	for _, d := range f.dirs {
		at, name, err := to.parent(d.path)
		if err == nil {
			err = at.Mkdir(name, 0o700)
		}
		if err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := c.carryFiles(ctx, f.files); err != nil {
		return err
	}
	for _, l := range f.symlinks {
		at, name, err := to.parent(l.path)
		if err == nil {
			err = at.Symlink(l.note, name)
		}
		if err != nil {
			return err
		}
	}
	for _, l := range f.links {
		if err := c.to.Link(l.note, l.path); err != nil && !isGone(err) {
			return err
		}
	}
	for i := len(f.dirs) - 1; i >= 0; i-- {
		if err := c.finishDir(to, f.dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

// carryFiles copies files, several at once.
func (c *copier) carryFiles(ctx context.Context, files []piece) error {
	var next atomic.Int64
	workers := min(runtime.GOMAXPROCS(0), 16)
	errs := make(chan error, workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			to := &hands{top: c.to}
			defer to.letGo(0)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(files) || ctx.Err() != nil {
					return
				}
				if err := c.file(to, files[i]); err != nil {
					errs <- err
					next.Store(int64(len(files)))
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

// file copies one file. One that cannot be read is left out, one that is gone is
// gone: what is missing is written from the store afterwards.
func (c *copier) file(to *hands, p piece) error {
	dir, err := c.from.open(dirOf(p.path))
	if err != nil {
		return c.unreadable(p, err)
	}
	defer dir.close()
	src, err := dir.open(path.Base(p.path))
	if err != nil {
		return c.unreadable(p, err)
	}
	defer src.close()
	st, err := src.stat()
	if err != nil || !st.is(typeFile) {
		return c.unreadable(p, err)
	}
	at, name, err := to.parent(p.path)
	if err != nil {
		return err
	}
	if c.over {
		if err := at.Remove(name); err != nil && !isGone(err) {
			return err
		}
	}
	dst, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	if err := c.content(dst, src); err != nil {
		return err
	}
	if err := c.attributes(dst, src.xattrs); err != nil {
		return err
	}
	if err := dst.Chmod(fileMode(st.perm() &^ setIDs)); err != nil { // the copy is ours
		return err
	}
	if err := dst.Close(); err != nil {
		return err
	}
	return at.Chtimes(name, time.Time{}, time.Unix(0, st.mtime))
}

func (c *copier) unreadable(p piece, err error) error {
	if isGone(err) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left(p.path)
	return nil
}

// content fills dst with src's bytes by the cheapest means there is.
func (c *copier) content(dst vfs.File, src *openFile) error {
	if c.clones.Load() {
		if err := clone(dst, src); err == nil {
			return nil
		}
		c.clones.Store(false)
	}
	if done, err := copyRange(dst, src); done || err != nil {
		return err
	}
	_, err := io.Copy(struct{ io.Writer }{dst}, reader{src})
	return err
}

func (c *copier) attributes(dst vfs.File, read func() ([]byte, error)) error {
	data, err := read()
	if err != nil || data == nil {
		return err
	}
	attrs, err := decodeXattrs(data)
	if err != nil {
		return err
	}
	return writeXattrs(dst.Fd(), attrs)
}

func (c *copier) finishDir(tree *hands, p piece) error {
	at, name, err := tree.parent(p.path)
	if err != nil {
		return err
	}
	to, err := at.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	if from, err := c.from.open(p.path); err == nil {
		defer from.close()
		if err := c.attributes(to, from.xattrs); err != nil {
			return err
		}
	}
	return to.Chmod(fileMode(p.st.perm() &^ setIDs))
}

// reader lets package io read an openFile.
type reader struct{ f *openFile }

func (r reader) Read(p []byte) (int, error) {
	n, err := r.f.read(p)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// probeName is what probe writes to, in the empty copy.
const probeName = ".segno-probe"

// probe finds out whether the file system makes reflinks, with the first file that
// has anything in it.
func (c *copier) probe(files []piece) error {
	i := slices.IndexFunc(files, func(p piece) bool { return p.st.size > 0 })
	if i < 0 {
		return nil
	}
	dir, err := c.from.open(dirOf(files[i].path))
	if err != nil {
		return nil // it will be seen to when the file is copied
	}
	defer dir.close()
	src, err := dir.open(path.Base(files[i].path))
	if err != nil {
		return nil
	}
	defer src.close()
	dst, err := c.to.OpenFile(probeName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	c.clones.Store(clone(dst, src) == nil)
	return c.to.Remove(probeName)
}
