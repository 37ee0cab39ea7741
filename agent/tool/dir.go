package tool

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/dalsegno/segno/agent"
)

// InDir returns the file system of a directory. No path leaves it, not even through symlinks.
// An absolute path that begins with the directory's path is a path inside. A write replaces the
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

// Effects allows a lost write to be repeated, but not a lost edit.
func (d *inDir) Effects() (write, edit agent.OnLost) { return agent.LostRetry, agent.LostAsk }

func (d *inDir) FS(*agent.Values) fs.FS { return dirFS{d.root} }

// dirFS is the directory for reading.
type dirFS struct{ root *os.Root }

func (d dirFS) Stat(name string) (fs.FileInfo, error) { return d.root.Stat(name) }

// Open opens a file without blocking on a pipe.
func (d dirFS) Open(name string) (fs.File, error) {
	return d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
