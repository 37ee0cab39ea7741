package tool

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// maxEdit is how big a file in a directory may be to be edited.
const maxEdit = 32 << 20

// InDir is the file system of a directory. No path leaves it, through links
// neither. An absolute path that begins with the directory's own is one inside.
// Written is what is on the disk: a file is replaced whole, keeps its mode, and a
// crash leaves the old one or the new one. root stays the caller's to close.
func InDir(root *os.Root) FileSystem {
	d := &inDir{root: root}
	if abs, err := filepath.Abs(root.Name()); err == nil {
		d.names = append(d.names, filepath.ToSlash(abs))
		if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
			d.names = append(d.names, filepath.ToSlash(real))
		}
	}
	return d
}

type inDir struct {
	root  *os.Root
	names []string   // the directory's own, absolute
	write sync.Mutex // one writer at a time
}

func (d *inDir) Name(p string) (string, error) {
	for _, root := range d.names {
		if root == "/" || !strings.HasPrefix(p, "/") {
			continue
		}
		if rest, ok := strings.CutPrefix(p, root+"/"); ok {
			return Clean(rest)
		}
		if clean := path.Clean(p); clean == root || strings.HasPrefix(clean, root+"/") {
			return Clean(strings.TrimPrefix(clean, root))
		}
	}
	return Clean(p)
}

// Effects: to write the same once more is the same; an edit is not.
func (d *inDir) Effects() (write, edit agent.Effect) { return agent.RetryWithKey, agent.AskAgain }

func (d *inDir) List(_ context.Context, _ *agent.Values, name string) ([]File, error) {
	info, err := d.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{{Name: name, Size: info.Size()}}, nil
	}
	entries, err := fs.ReadDir(d.root.FS(), name)
	var files []File
	for _, e := range entries {
		f := File{Name: path.Join(name, e.Name()), Dir: e.IsDir()}
		if e.Type()&fs.ModeSymlink != 0 {
			if info, err := d.root.Stat(f.Name); err == nil {
				f.Dir, f.Size = info.IsDir(), info.Size()
			}
		} else if info, err := e.Info(); err == nil {
			f.Size = info.Size()
		}
		files = append(files, f)
	}
	return files, err
}

// versions are the directories of version control, which are not searched.
func versions(name string) bool {
	switch path.Base(name) {
	case ".git", ".hg", ".svn", ".jj":
		return true
	}
	return false
}

func (d *inDir) Walk(ctx context.Context, _ *agent.Values, name string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		info, err := d.root.Stat(name)
		if err != nil {
			yield("", err)
			return
		}
		if !info.IsDir() {
			yield(name, nil)
			return
		}
		err = fs.WalkDir(d.root.FS(), name, func(at string, e fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil && e.IsDir() && at != name && versions(at):
				return fs.SkipDir
			case err == nil && !d.isFile(at, e), yield(at, err):
				return nil
			}
			return fs.SkipAll
		})
		if err != nil {
			yield("", err)
		}
	}
}

// isFile follows links, but not to directories, which may lie around the link.
func (d *inDir) isFile(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink != 0 {
		info, err := d.root.Stat(name)
		return err == nil && info.Mode().IsRegular()
	}
	return e.Type().IsRegular()
}

func (d *inDir) Open(_ context.Context, _ *agent.Values, name string) (io.ReadCloser, error) {
	f, _, err := d.open(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// open opens a regular file. It does not wait for the other end of a pipe.
func (d *inDir) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = mustBeFile(name, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func mustBeFile(name string, info fs.FileInfo) error {
	if info.IsDir() {
		return errIsDir(name)
	}
	if !info.Mode().IsRegular() {
		return refuse(name, segno.KindInvalid, "it is no regular file but a %s: leave it alone", kindOfFile(info.Mode()))
	}
	return nil
}

func kindOfFile(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

func (d *inDir) Write(_ context.Context, _ *agent.Values, name string, data []byte) error {
	d.write.Lock()
	defer d.write.Unlock()
	return d.replace(name, data, nil)
}

func (d *inDir) Edit(_ context.Context, _ *agent.Values, name string, change func([]byte) ([]byte, error)) error {
	d.write.Lock()
	defer d.write.Unlock()
	f, info, err := d.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return err
	}
	if len(old) > maxEdit {
		return refuse(name, segno.KindRefused, "it has more than %d MB: too big to be edited here", maxEdit>>20)
	}
	now, err := change(old)
	if err != nil {
		return err
	}
	return d.replace(name, now, info)
}

// replace makes a file hold data. was is what was read of it, or nil.
func (d *inDir) replace(name string, data []byte, was fs.FileInfo) error {
	target, info, err := d.behindLinks(name)
	if err != nil {
		return err
	}
	perm := fs.FileMode(0o666)
	if info != nil {
		if err := mustBeFile(name, info); err != nil {
			return err
		}
		if perm = info.Mode().Perm(); perm&0o222 == 0 {
			return refuse(name, segno.KindRefused, "it is read-only")
		}
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
		_ = d.root.Remove(temp) // stray at worst
		return err
	}
	if was != nil {
		if now, err := d.root.Stat(target); err != nil || !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()) || was.Size() != now.Size() {
			_ = d.root.Remove(temp)
			return refuse(name, segno.KindConflict, "somebody else changed it meanwhile: read it again")
		}
	}
	if err := d.root.Rename(temp, target); err != nil {
		_ = d.root.Remove(temp)
		return err
	}
	return d.sync(dir)
}

// behindLinks follows the links at the end of a name, so that what they point to
// is replaced and not they. info is nil if there is nothing yet. Names are joined
// as they are: what ".." means behind a link only the root can say.
func (d *inDir) behindLinks(name string) (target string, info fs.FileInfo, err error) {
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
			return "", nil, refuse(name, segno.KindRefused, "it is a link out of the root: all files are below it")
		}
		name = name[:strings.LastIndexByte(name, '/')+1] + link
	}
	return "", nil, refuse(name, segno.KindInvalid, "it is a link to itself")
}

func (d *inDir) create(name string, data []byte, perm fs.FileMode, exact bool) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if exact {
		err = f.Chmod(perm) // whatever the umask
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
