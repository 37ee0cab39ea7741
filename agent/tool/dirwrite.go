package tool

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// maxEdit is the maximum size of a file to edit.
const maxEdit = 32 << 20

func (d *inDir) Write(_ context.Context, _ *agent.Values, name string, data []byte) error {
	d.write.Lock()
	defer d.write.Unlock()
	return d.replace(name, data, nil)
}

func (d *inDir) Edit(_ context.Context, _ *agent.Values, name string, change func([]byte) ([]byte, error)) error {
	d.write.Lock()
	defer d.write.Unlock()
	f, info, err := openFile(dirFS{d.root}, name)
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return err
	}
	if len(old) > maxEdit {
		return errFile(name, segno.KindRefused, "the file has more than %d MB: too large for edit_file", maxEdit>>20)
	}
	now, err := change(old)
	if err != nil {
		return err
	}
	return d.replace(name, now, info)
}

// replace replaces a file's content atomically. was describes the file that an edit read, or is nil.
func (d *inDir) replace(name string, data []byte, was fs.FileInfo) error {
	target, info, err := d.resolveLinks(name)
	if err != nil {
		return err
	}
	if inVersionControl(name) || inVersionControl(d.resolveDir(target)) {
		return errFile(name, segno.KindRefused, "the file belongs to version control: use the commands of version control")
	}
	perm, err := writableMode(name, info)
	if err != nil {
		return err
	}
	dir := "."
	if at := strings.LastIndexByte(target, '/'); at >= 0 {
		dir = target[:at]
		if err := d.root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	temp := dir + "/.segno-" + rand.Text()
	if err := d.create(temp, data, perm, info != nil); err != nil {
		_ = d.root.Remove(temp) // at worst a stray file remains
		return err
	}
	if was != nil {
		if now, err := d.root.Stat(target); err != nil || !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()) || was.Size() != now.Size() {
			_ = d.root.Remove(temp)
			return errFile(name, segno.KindConflict, "the file was changed meanwhile: read it again")
		}
	}
	if err := d.root.Rename(temp, target); err != nil {
		_ = d.root.Remove(temp)
		return err
	}
	return d.sync(dir)
}

// writableMode returns the mode for a file's new content. info is nil for a new file.
func writableMode(name string, info fs.FileInfo) (fs.FileMode, error) {
	if info == nil {
		return 0o666, nil
	}
	if err := checkRegular(name, info); err != nil {
		return 0, err
	}
	perm := info.Mode().Perm()
	if perm&0o222 == 0 {
		return 0, errFile(name, segno.KindRefused, "the file is read-only")
	}
	return perm, nil
}

// resolveLinks resolves the symlinks at the end of a name, so that a write replaces their target.
// info is nil if the file does not exist. It joins names without cleaning them, because only the
// file system knows what ".." means after a symlink.
func (d *inDir) resolveLinks(name string) (target string, info fs.FileInfo, err error) {
	for range 40 {
		info, err = d.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil, nil
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, info, err
		}
		link, err := d.root.Readlink(name)
		if err != nil {
			return "", nil, err
		}
		if path.IsAbs(link) {
			return "", nil, errFile(name, segno.KindRefused, "the symlink leaves the root: all files are below the root")
		}
		name = name[:strings.LastIndexByte(name, '/')+1] + link
	}
	return "", nil, errFile(name, segno.KindInvalid, "the symlink points to itself")
}

func (d *inDir) create(name string, data []byte, perm fs.FileMode, exact bool) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if exact {
		err = f.Chmod(perm) // regardless of the umask
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d *inDir) sync(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
