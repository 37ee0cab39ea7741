package workspace

import (
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Options configure a [Dir].
type Options struct {
	ID      segno.WorkspaceID // required
	Objects segno.Objects     // required
	// Index is the path of the file with the state of each file at the last snapshot, one
	// for each workspace, outside the tree. Without it each snapshot reads everything.
	Index string
	// Sealer, if not nil, encrypts the index.
	Sealer Sealer
	// ForkNote is the path of a file, outside the tree, that contains the path of the incomplete
	// copy during a Fork, so that [RemoveAbandonedFork] finds the copy that a killed process
	// left. Without it, that copy stays beside the fork's target.
	ForkNote string
	// Exclude are absolute paths of files, and of directories that are never entered, such as segno's
	// own store if it is inside the tree.
	Exclude []string
	// Databases, if not nil, returns absolute paths of files that another package saves: trees record
	// only that they exist. beside are files beside them, of which trees record nothing.
	Databases func() (databases, beside []string)
	// GitIgnore is the path of the user's own git ignore file, which applies to each
	// repository when a snapshot decides whether git ignores a large file. "" is none.
	GitIgnore string
	// Progress, if not nil, is called during a snapshot with the number of bytes that were
	// read and the number known to need it. Calls do not overlap.
	Progress func(done, total int64)
	// FS makes all writes; nil is [vfs.OS].
	FS vfs.FS
}

// Sealer encrypts a file that segno keeps outside the tree. OpenFile is the inverse of SealFile, and fails for the
// content of another file.
type Sealer interface {
	SealFile(name string, plain []byte) []byte
	OpenFile(name string, data []byte) ([]byte, error)
}

// Dir is a directory tree an agent works in. It implements [segno.Workspace].
type Dir struct {
	options  Options
	root     string
	cache    *objectCache     // objects of the newest snapshot
	cached   *cachedIndex     // index of the newest snapshot
	coverage []segno.Coverage // the arguments of Cover

	budget   budget
	readFull func(f *fileHandle, buf []byte) (int, error) // replaced by tests

	// listNames lists a directory during a restore; nil is [dirHandle.names] where file systems
	// fold names. Tests set it to simulate such a file system.
	listNames func(dir string) ([]string, error)
}

var _ segno.Workspace = (*Dir)(nil)

// Open returns the tree at the directory root. The error has [segno.KindInvalid] if a
// required option is missing, [segno.KindNotFound] if there is no such directory.
func Open(root string, o Options) (*Dir, error) {
	if o.ID == "" || root == "" || o.Objects == nil {
		return nil, segno.Errorf(segno.KindInvalid, "open workspace", root, "the options lack an id, a root or objects")
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	real, err := realDir(root)
	if err != nil {
		return nil, pathError("open workspace", root, err)
	}
	return &Dir{options: o, root: real, cache: newObjectCache(o.Objects), budget: newBudget(), readFull: readFull}, nil
}

// ID returns the workspace's id.
func (d *Dir) ID() segno.WorkspaceID { return d.options.ID }

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

// pathError returns an error about a path. It has the kind of err, or the one that fits the
// cause.
func pathError(op, path string, err error) error {
	kind := segno.KindOf(err)
	switch {
	case kind != segno.KindInternal:
	case isGone(err) || isReplaced(err):
		kind = segno.KindNotFound
	default:
		kind = segno.KindIO
	}
	return segno.NewError(kind, op, path, err)
}

// reserved returns the paths in the tree that are not the user's, or that another package saves.
func (d *Dir) reserved() reserved {
	r := reserved{own: d.inTree(d.options.Exclude)}
	if d.options.Databases != nil {
		databases, beside := d.options.Databases()
		r.databases, r.beside = d.inTree(databases), d.inTree(beside)
	}
	return r
}

// inTree returns which of some absolute paths are inside the tree, as paths in it.
func (d *Dir) inTree(paths []string) (out []string) {
	for _, dir := range paths {
		if real, err := realDir(dir); err == nil {
			dir = real
		}
		if rel, ok := inside(d.root, dir); ok && rel != "" {
			out = append(out, rel)
		}
	}
	return out
}

// inside returns path relative to dir, "" for dir itself, if it is at or below it.
func inside(dir, path string) (string, bool) {
	if dir == path {
		return "", true
	}
	if !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	return strings.CutPrefix(path, dir)
}
