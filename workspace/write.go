package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// errMoved says that a path is no longer what it was when its step was judged.
const errMoved = movedError("it was changed meanwhile")

type movedError string

func (e movedError) Error() string { return string(e) }

// place opens the directory of a step, ready to be written in, and makes sure that
// the step's path is as it was judged, as far as its stat tells.
func (a *apply) place(m *move) (vfs.Root, string, error) {
	at, err := a.writable(path.Dir(m.Path))
	if err != nil {
		return nil, "", err
	}
	name := path.Base(m.Path)
	a.soiled[path.Dir(m.Path)] = true
	return at, name, a.unmoved(at, name, m)
}

// still makes sure, right before a path is replaced, that it is as it was judged.
func (a *apply) still(at vfs.Root, name string, m *move) error {
	if err := a.unmoved(at, name, m); err != nil {
		return err
	}
	return a.unwritten(at, name, m)
}

// unwritten reads a file again if the content may have changed since it was judged
// without a trace in the stat.
func (a *apply) unwritten(at vfs.Root, name string, m *move) error {
	if !m.was.suspect {
		return nil
	}
	fi, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && m.clears() {
		return nil
	}
	if err != nil {
		return err
	}
	now := present{st: statOf(fi)}
	if err := a.eyes.hashFile(at, name, &now); err != nil {
		return err
	}
	if now.Hash != m.was.Hash {
		return errMoved
	}
	return nil
}

func (a *apply) unmoved(at vfs.Root, name string, m *move) error {
	fi, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if m.was.Type == segno.EntityNone || m.clears() {
			return nil
		}
		return errMoved
	}
	if err != nil {
		return err
	}
	st := statOf(fi)
	if st.is(typeDir) && m.was.Type == segno.EntityDir {
		return nil // what is in it has its own steps
	}
	was := m.was.st
	if was.nlink > 1 { // another name that we removed counts as a change
		was.nlink, was.ctime = st.nlink, st.ctime
	}
	if st != was {
		return errMoved
	}
	return nil
}

// writable opens a directory and makes what is missing of it.
func (a *apply) writable(dir string) (vfs.Root, error) {
	if dir == "." {
		return a.eyes.top, nil
	}
	at, err := a.eyes.dir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		up, err := a.writable(path.Dir(dir))
		if err != nil {
			return nil, err
		}
		a.soiled[path.Dir(dir)] = true
		if err := up.Mkdir(path.Base(dir), 0o755); err != nil {
			return nil, err
		}
		return a.eyes.dir(dir)
	}
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		return at, nil // may write anywhere
	}
	fi, err := at.Lstat(".")
	if err != nil {
		return nil, err
	}
	st := statOf(fi)
	if _, ok := a.opened[dir]; ok || st.perm()&0o300 == 0o300 {
		return at, nil
	}
	a.opened[dir] = st.perm()
	return at, chmodDir(at, st.perm()|ownerBits)
}

// lockAgain gives directories their modes back.
func (a *apply) lockAgain() (err error) {
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(a.opened))) { // deepest first
		mode := a.opened[dir]
		at, e := a.eyes.dir(dir)
		if isAbsent(e) {
			continue
		}
		if m := a.byPath[dir]; m != nil && m.verdict == write && m.To.Type == segno.EntityDir {
			mode = m.To.Mode
		}
		if e == nil {
			e = chmodDir(at, mode)
		}
		err = errors.Join(err, e)
	}
	return err
}

func chmodDir(at vfs.Root, mode uint32) error {
	f, err := at.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(fileMode(mode))
}

// remove takes away what is to go or to make room.
func (a *apply) remove(_ context.Context, m *move) error {
	at, name, err := a.place(m)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.unwritten(at, name, m); err != nil {
		return err
	}
	err = at.Remove(name)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		err = a.removeSwept(m.Path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		if m.To.Type != segno.EntityNone {
			m.refuse("it is not empty")
		}
		return nil
	}
	return err
}

// removeSwept removes a directory after the temporary files a broken-off Apply
// left in it.
func (a *apply) removeSwept(dir string) error {
	names, err := a.eyes.names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if isOurTemp(name) {
			if err := a.eyes.discard(join(dir, name)); err != nil {
				return err
			}
		}
	}
	at, name, err := a.eyes.parent(dir)
	if err != nil {
		return err
	}
	return at.Remove(name)
}

// mkdir makes a directory that can be filled; finish gives it its mode.
func (a *apply) mkdir(_ context.Context, m *move) error {
	at, name, err := a.place(m)
	if err != nil {
		return err
	}
	if err := at.Mkdir(name, fs.FileMode(m.To.Mode&0o777|ownerBits)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := at.Lstat(name)
	if err == nil && !fi.IsDir() {
		return errMoved
	}
	return err
}

// finish sets what a directory could not have while it was filled.
func (a *apply) finish(ctx context.Context, m *move) error {
	at, err := a.eyes.dir(m.Path)
	if err != nil {
		return err
	}
	f, err := at.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	attrs, err := a.supply.xattrs(ctx, m.To.Xattrs)
	if err != nil {
		return err
	}
	if err := writeXattrs(f.Fd(), attrs); err != nil {
		return err
	}
	a.soiled[m.Path] = true
	return m.setMode(f)
}

// setMode gives a file or directory that is complete its mode. It has its final
// owner by now. Setuid and setgid lend that owner's rights, so they are set only if
// the snapshot recorded the same one.
func (m *move) setMode(f vfs.File) error {
	mode := m.To.Mode
	if mode&setIDs != 0 {
		fi, err := f.Stat()
		if err != nil {
			return err
		}
		if uid, gid := ownerOf(fi); !lendsTo(m.To, uid, gid) {
			mode, m.stripped = mode&^setIDs, true
		}
	}
	return f.Chmod(fileMode(mode))
}

// put writes a file or a symlink beside its place and renames it there.
func (a *apply) put(ctx context.Context, m *move) (err error) {
	at, name, err := a.place(m)
	if err != nil {
		return err
	}
	temp := tempPrefix + rand.Text()
	defer func() {
		if err != nil {
			_ = at.Remove(temp) // it is stray at worst; the first error is the one to tell
		}
	}()
	if m.To.Type == segno.EntitySymlink {
		err = at.Symlink(m.To.Target, temp)
	} else {
		err = a.writeFile(ctx, at, temp, m)
	}
	if err != nil {
		return err
	}
	if err := a.still(at, name, m); err != nil {
		return err
	}
	return at.Rename(temp, name)
}

// writeFile makes the file temp what m's path is to be.
func (a *apply) writeFile(ctx context.Context, at vfs.Root, temp string, m *move) error {
	content, err := a.supply.content(ctx, m.To.Hash)
	if err != nil {
		return err
	}
	attrs, err := a.supply.xattrs(ctx, m.To.Xattrs)
	if err != nil {
		return err
	}
	mtime, known, err := a.supply.mtime(ctx, m.Path)
	if err != nil {
		return err
	}
	f, err := at.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeContent(f, content); err != nil {
		return err
	}
	if err := keepOwner(f, m.was); err != nil {
		return err
	}
	if err := writeXattrs(f.Fd(), attrs); err != nil {
		return err
	}
	if err := m.setMode(f); err != nil { // after keepOwner, which may clear setuid
		return err
	}
	if known {
		if err := at.Chtimes(temp, time.Time{}, time.Unix(0, mtime)); err != nil {
			return err
		}
	}
	if a.few {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Close()
}

// relink makes a path another name of the file whose first name it is to share.
// Where that is not the content wanted, or links cannot be made, it becomes a file
// of its own.
func (a *apply) relink(ctx context.Context, m *move) error {
	first, ok, err := a.eyes.stat(m.To.Target)
	if err != nil {
		return err
	}
	now, there, err := a.eyes.stat(m.Path)
	if err != nil {
		return err
	}
	if ok && there && first.same(&now) {
		return nil
	}
	if !ok || !a.holds(m.To) {
		if m.verdict == taken {
			return nil
		}
		return a.put(ctx, m)
	}
	err = a.linkTo(m, first)
	if errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EMLINK) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.EPERM) {
		return a.put(ctx, m)
	}
	m.verdict = write // so that it is read back
	return err
}

// holds reports whether the first name of a hard link has the content wanted.
func (a *apply) holds(to segno.Entity) bool {
	first, err := a.eyes.look(to.Target)
	return err == nil && equal(first.Entity, to)
}

func (a *apply) linkTo(m *move, first stat) (err error) {
	at, name, err := a.place(m)
	if err != nil {
		return err
	}
	temp := tempPrefix + rand.Text()
	if err := a.eyes.top.Link(m.To.Target, join(dirOf(m.Path), temp)); err != nil {
		return err
	}
	defer func() {
		if removed := at.Remove(temp); err == nil && !errors.Is(removed, fs.ErrNotExist) {
			err = removed // a rename of two names of one file leaves both
		}
	}()
	fi, err := at.Lstat(temp)
	if err != nil {
		return err
	}
	if st := statOf(fi); !st.same(&first) {
		return errMoved
	}
	if err := a.still(at, name, m); err != nil {
		return err
	}
	return at.Rename(temp, name)
}

// dirOf returns the directory of a path, "" for the root.
func dirOf(p string) string {
	if dir := path.Dir(p); dir != "." {
		return dir
	}
	return ""
}

// fileMode turns chmod's bits into package fs's.
func fileMode(mode uint32) fs.FileMode {
	out := fs.FileMode(mode & 0o777)
	for _, bit := range []struct {
		unix uint32
		mode fs.FileMode
	}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}} {
		if mode&bit.unix != 0 {
			out |= bit.mode
		}
	}
	return out
}

// sync makes the written paths durable. Many directories, like many files, are synced
// together: one after the other takes milliseconds each.
func (a *apply) sync() error {
	if !a.few || len(a.soiled) > few {
		return syncAll(a.eyes.top)
	}
	for _, dir := range slices.Sorted(maps.Keys(a.soiled)) { // the way to one leads to the next
		if dir == "." {
			dir = ""
		}
		at, err := a.eyes.dir(dir)
		if isAbsent(err) {
			continue
		}
		if err == nil {
			err = at.SyncDir(".")
		}
		if err != nil {
			return pathError("sync directory", dir, err)
		}
	}
	return nil
}
