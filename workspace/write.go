package workspace

import (
	"bytes"
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

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// errMoved is the error if a path changed after the decision about its step.
var errMoved = errors.New("it was changed meanwhile")

// openParent opens the directory of a step for writing, and checks that the stat of the step's
// path is still the same.
func (a *apply) openParent(s *step) (vfs.Root, string, error) {
	dir, name := dirOf(s.Path), path.Base(s.Path)
	at, err := a.makeWritable(dir)
	if err != nil {
		return nil, "", err
	}
	a.changedDirs[dir] = true
	return at, name, s.checkStat(at, name)
}

// checkContent reads a file again if its content may have changed without a change of its stat.
func (a *apply) checkContent(at vfs.Root, name string, s *step) error {
	if !s.found.suspect {
		return nil
	}
	dir, err := openWritten(at)
	if err != nil {
		return err
	}
	defer dir.close()
	var now present
	if now.st, err = dir.lstat(name); isGone(err) && s.removes() {
		return nil
	}
	if err == nil {
		err = a.reader.hashFile(dir, name, &now)
	}
	if err == nil && now.Hash != s.found.Hash {
		err = errMoved
	}
	return err
}

// checkStat checks that the stat of the step's path is still the same.
func (s *step) checkStat(at vfs.Root, name string) error {
	fi, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if s.found.Type == segno.EntityNone || s.removes() {
			return nil
		}
		return errMoved
	}
	if err != nil {
		return err
	}
	st, was := statOf(fi), s.found.st
	if st.is(typeDir) && s.found.Type == segno.EntityDir {
		return nil // its entries have their own steps
	}
	if was.nlink > 1 { // a removal of another name of the file changes the stat, too
		was.nlink, was.ctime = st.nlink, st.ctime
	}
	if st != was {
		return errMoved
	}
	return nil
}

// makeWritable opens a directory and gives its owner write permission. It makes the directory
// if it does not exist.
func (a *apply) makeWritable(dir string) (vfs.Root, error) {
	if dir == "" {
		return a.writer.top, nil
	}
	at, err := a.writer.dir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		up, err := a.makeWritable(dirOf(dir))
		if err != nil {
			return nil, err
		}
		a.changedDirs[dirOf(dir)] = true
		if err := up.Mkdir(path.Base(dir), 0o755); err != nil {
			return nil, err
		}
		return a.writer.dir(dir)
	}
	if err != nil || os.Geteuid() == 0 { // root may write in every directory
		return at, err
	}
	fi, err := at.Lstat(".")
	if err != nil {
		return nil, err
	}
	st := statOf(fi)
	if _, ok := a.madeWritable[dir]; ok || st.perm()&0o300 == 0o300 {
		return at, nil
	}
	a.madeWritable[dir] = st.perm()
	return at, chmodDir(at, st.perm()|ownerBits)
}

// restoreModes sets the modes of the directories that makeWritable changed.
func (a *apply) restoreModes() (err error) {
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(a.madeWritable))) { // deepest first
		mode := a.madeWritable[dir]
		if s := a.byPath[dir]; s != nil && s.setsDir() {
			mode = s.To.Mode
		}
		at, e := a.writer.dir(dir)
		if isAbsent(e) {
			continue
		}
		if e == nil {
			e = chmodDir(at, mode)
		}
		err = errors.Join(err, e)
	}
	return err
}

// remove removes a path, permanently or to make room for another entity.
func (a *apply) remove(_ context.Context, s *step) error {
	at, name, err := a.openParent(s)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.checkContent(at, name, s); err != nil {
		return err
	}
	err = at.Remove(name)
	if isNotEmpty(err) {
		err = a.removeWithTemps(s.Path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case isNotEmpty(err):
		if s.To.Type != segno.EntityNone {
			s.refuse("it is not empty")
		}
		return nil
	}
	return err
}

func isNotEmpty(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}

// removeWithTemps removes a directory after removing the temporary files that an interrupted
// Apply left in it.
func (a *apply) removeWithTemps(dir string) error {
	names, err := a.reader.root.names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if isApplyTemp(name) {
			if err := a.writer.removeTemp(join(dir, name)); err != nil {
				return err
			}
		}
	}
	return a.writer.in(dir, vfs.Root.Remove)
}

// makeDir makes a directory with write permission; finishDir sets its mode.
func (a *apply) makeDir(_ context.Context, s *step) error {
	at, name, err := a.openParent(s)
	if err != nil {
		return err
	}
	if err := at.Mkdir(name, fs.FileMode(s.To.Mode&0o777|ownerBits)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := at.Lstat(name)
	if err == nil && !fi.IsDir() {
		return errMoved
	}
	return err
}

// finishDir sets the attributes and the mode of a directory whose content is complete.
func (a *apply) finishDir(ctx context.Context, s *step) error {
	at, err := a.writer.dir(s.Path)
	if err != nil {
		return err
	}
	f, err := at.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	attrs, err := a.objects.xattrs(ctx, s.To.Xattrs)
	if err != nil {
		return err
	}
	if err := writeXattrs(f.Fd(), attrs); err != nil {
		return err
	}
	a.changedDirs[s.Path] = true
	return s.setMode(f)
}

// setMode sets the mode of a file or directory that is complete and has its final owner. Setuid
// and setgid grant the rights of that owner, so setMode sets them only if the snapshot recorded
// the same owner.
func (s *step) setMode(f vfs.File) error {
	mode := s.To.Mode
	if mode&setIDs != 0 {
		fi, err := f.Stat()
		if err != nil {
			return err
		}
		if st := statOf(fi); !lendsTo(s.To, &st) {
			mode, s.stripped = mode&^setIDs, true
		}
	}
	return f.Chmod(fileMode(mode))
}

// replace writes a file or a symlink to a path.
func (a *apply) replace(ctx context.Context, s *step) error {
	return a.renameOver(s, func(at vfs.Root, temp string) error {
		if s.To.Type == segno.EntitySymlink {
			return at.Symlink(s.To.Target, temp)
		}
		return a.writeFile(ctx, at, temp, s)
	})
}

// renameOver calls write to make a temporary file in the directory of a step's path, and
// renames the file to that path.
func (a *apply) renameOver(s *step, write func(at vfs.Root, temp string) error) (err error) {
	at, name, err := a.openParent(s)
	if err != nil {
		return err
	}
	temp := tempPrefix + rand.Text()
	defer func() {
		if err == nil && !s.makesLink() {
			return // a rename of one name to another name of the same file leaves both
		}
		if removed := at.Remove(temp); err == nil && !errors.Is(removed, fs.ErrNotExist) {
			err = removed
		}
	}()
	if err := write(at, temp); err != nil {
		return err
	}
	if err := s.checkStat(at, name); err != nil {
		return err
	}
	if err := a.checkContent(at, name, s); err != nil {
		return err
	}
	return at.Rename(temp, name)
}

// writeFile creates the file temp with the content and metadata of a step's To.
func (a *apply) writeFile(ctx context.Context, at vfs.Root, temp string, s *step) error {
	content, err := a.objects.content(ctx, s.To.Hash)
	if err != nil {
		return err
	}
	attrs, err := a.objects.xattrs(ctx, s.To.Xattrs)
	if err != nil {
		return err
	}
	saved, err := a.objects.time(ctx, s.Path)
	if err != nil {
		return err
	}
	f, err := at.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if !a.reflink(f, s.To) {
		if err := writeContent(f, bytes.NewReader(content)); err != nil {
			return err
		}
	}
	if err := keepOwner(f, s.found.st); err != nil {
		return err
	}
	if err := writeXattrs(f.Fd(), attrs); err != nil {
		return err
	}
	if err := s.setMode(f); err != nil { // after keepOwner, which may clear setuid
		return err
	}
	if saved != nil && saved.child.IsZero() {
		if err := at.Chtimes(temp, time.Time{}, time.Unix(0, saved.mtime)); err != nil {
			return err
		}
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	s.wrote = statOf(fi)
	if a.syncEach {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Close()
}

// minReflink is the size of the smallest file that is made by reflink. A smaller one is written as fast.
const minReflink = 64 << 10

// reflink makes the content of f share the blocks of the object's file, if the objects are files and the file system
// supports it. verify reads the file back, as it does if the content was written.
func (a *apply) reflink(f vfs.File, to segno.Entity) bool {
	files, ok := a.objects.objects.(contentFiles)
	if !ok || a.noReflinks || to.Size < minReflink {
		return false
	}
	src, err := files.ContentFile(to.Hash)
	if err != nil {
		return false
	}
	defer src.Close()
	a.noReflinks = reflink(f, &fileHandle{fd: int(src.Fd())}) != nil
	return !a.noReflinks
}

// keepOwner sets the owner of a file to that of the file that it replaces, if this process may. Only root may set the
// user, and another user may only set a group of which that user is a member.
func keepOwner(f vfs.File, was stat) error {
	if was.ino == 0 {
		return nil
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	now := statOf(fi)
	if now.uid == was.uid && now.gid == was.gid {
		return nil
	}
	if os.Geteuid() != 0 {
		_ = unix.Fchown(int(f.Fd()), -1, int(was.gid)) // the user need not be a member
		return nil
	}
	return unix.Fchown(int(f.Fd()), int(was.uid), int(was.gid))
}

// link makes a path another name of the file whose first name is its target. If that file does
// not have the right content, or links cannot be made, the path becomes a separate file.
func (a *apply) link(ctx context.Context, s *step) error {
	first, ok, err := a.reader.root.find(s.To.Target)
	if err != nil {
		return err
	}
	now, exists, err := a.reader.root.find(s.Path)
	if err != nil {
		return err
	}
	if ok && exists && first.isSameFile(&now) {
		return nil
	}
	a.reader.forgetNames() // the target may be new
	target, lookErr := a.reader.look(s.To.Target)
	if !ok || lookErr != nil || !equal(target.Entity, s.To) {
		if s.verdict == verdictSkip {
			return nil
		}
		return a.replace(ctx, s)
	}
	err = a.renameOver(s, func(at vfs.Root, temp string) error {
		if err := a.writer.top.Link(s.To.Target, join(dirOf(s.Path), temp)); err != nil {
			return err
		}
		fi, err := at.Lstat(temp)
		if err != nil {
			return err
		}
		if s.wrote = statOf(fi); !s.wrote.isSameFile(&first) {
			return errMoved
		}
		return nil
	})
	for _, cannotLink := range []error{syscall.EXDEV, syscall.EMLINK, syscall.ENOTSUP, syscall.EPERM} {
		if errors.Is(err, cannotLink) {
			return a.replace(ctx, s)
		}
	}
	s.verdict = verdictWrite // verify then reads it
	return err
}
