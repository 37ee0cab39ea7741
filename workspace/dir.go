package workspace

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Config says which tree a [Dir] is about and where it keeps things.
type Config struct {
	ID      segno.WorkspaceID // required
	Root    string            // required: the directory
	Objects segno.Objects     // required
	// Index is the path of the file that keeps what the last snapshot saw, one
	// for each workspace, outside the tree. Without it each snapshot reads all.
	Index string
	// ForkNote is the path of a file, outside the tree, that names the incomplete
	// copy while a Fork is under way, so that [RemoveAbandonedFork] finds what a
	// killed one left. Without it, that stays beside the fork's target.
	ForkNote string
	// Exclude are absolute paths of directories that are never entered: segno's
	// own store, should it lie inside the tree.
	Exclude []string
	// GitIgnore is the path of the user's own git ignore file, which counts in each
	// repository when a snapshot decides whether git ignores a large file. "" is none.
	GitIgnore string
	// Progress, if not nil, is told how many bytes were read and how many are
	// known to need it, as a snapshot goes on. It is called by one goroutine at
	// a time.
	Progress func(done, total int64)
	// FS is what writes; nil is [vfs.OS].
	FS vfs.FS
}

// Dir is a directory tree an agent works in. It implements [segno.Workspace].
type Dir struct {
	config   Config
	root     string
	recent   *recent          // what the newest snapshot put
	kept     *kept            // what it saw
	coverage []segno.Coverage // what stays saved whatever the rules say

	budget budget
	fill   func(f *openFile, buf []byte) (int, error) // readFull, but in tests
}

var _ segno.Workspace = (*Dir)(nil)

// Open returns the tree at c.Root. The error has [segno.KindInvalid] if c lacks
// something, [segno.KindNotFound] if there is no such directory.
func Open(c Config) (*Dir, error) {
	if c.ID == "" || c.Root == "" || c.Objects == nil {
		return nil, segno.Errorf(segno.KindInvalid, "open workspace", c.Root, "the config lacks an id, a root or objects")
	}
	if c.FS == nil {
		c.FS = vfs.OS
	}
	root, err := realDir(c.Root)
	if err != nil {
		return nil, pathError("open workspace", c.Root, err)
	}
	return &Dir{config: c, root: root, recent: newRecent(c.Objects), budget: newBudget(), fill: readFull}, nil
}

// ID returns the workspace's name.
func (d *Dir) ID() segno.WorkspaceID { return d.config.ID }

// Root returns the tree's absolute path, symlinks resolved.
func (d *Dir) Root() string { return d.root }

// realDir returns the absolute path of a directory, symlinks resolved.
func realDir(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// pathError is an error about a path, with the kind its cause has or asks for.
func pathError(op, path string, err error) error {
	kind := segno.KindOf(err)
	switch {
	case kind != segno.KindInternal:
	case errors.Is(err, fs.ErrNotExist) || isReplaced(err):
		kind = segno.KindNotFound
	default:
		kind = segno.KindIO
	}
	return segno.NewError(kind, op, path, err)
}

// excluded returns which of the directories to exclude lie inside the tree, as
// paths in it.
func (d *Dir) excluded() (out []string) {
	for _, dir := range d.config.Exclude {
		if real, err := realDir(dir); err == nil {
			dir = real
		}
		if rel, ok := inside(d.root, dir); ok && rel != "" {
			out = append(out, rel)
		}
	}
	return out
}

// inside returns path as seen from dir, "" for dir itself, if it is at or below it.
func inside(dir, path string) (string, bool) {
	if dir == path {
		return "", true
	}
	if !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	return strings.CutPrefix(path, dir)
}
