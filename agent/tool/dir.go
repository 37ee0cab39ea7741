package tool

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// InDir returns the file system of a directory. No path leaves it, also not through symlinks.
// An absolute path that begins with the directory's is a path inside. A write replaces the
// file atomically and keeps its mode; it is on disk when the tool returns. The caller closes
// root.
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
	names []string   // absolute paths of the directory
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

// Effects: a write may be repeated, an edit may not.
func (d *inDir) Effects() (write, edit agent.OnLost) { return agent.LostRetry, agent.LostAsk }

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

// resolveDir returns a path with the symlinks of its directory resolved.
func (d *inDir) resolveDir(name string) string {
	if len(d.names) == 0 {
		return name
	}
	base := d.names[len(d.names)-1] // the real path, if there are symlinks
	real, err := filepath.EvalSymlinks(filepath.Join(base, filepath.FromSlash(path.Dir(name))))
	if err != nil {
		return name // the directory does not exist yet
	}
	return path.Join(strings.TrimPrefix(filepath.ToSlash(real), base), path.Base(name))
}

// inVersionControl reports whether a path is inside a directory of version control.
func inVersionControl(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(name), "/"), isVersionControl)
}

// isVersionControl reports whether a directory belongs to version control. Searches skip it.
func isVersionControl(name string) bool {
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
			case err == nil && e.IsDir() && at != name && isVersionControl(at):
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

// isFile follows symlinks, but not to directories, which may contain the symlink.
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

// open opens a regular file. It does not block on a pipe.
func (d *inDir) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkRegular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func checkRegular(name string, info fs.FileInfo) error {
	if info.IsDir() {
		return errIsDir(name)
	}
	if !info.Mode().IsRegular() {
		return errFile(name, segno.KindInvalid, "not a regular file but a %s: leave it unchanged", kindOfFile(info.Mode()))
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
