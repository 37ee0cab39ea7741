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
	// Index is the path of a file, outside the tree and separate for each workspace, that stores the state of
	// each file at the last snapshot. Without it, each snapshot reads every file.
	Index string
	// Sealer, if not nil, encrypts the index.
	Sealer Sealer
	// ForkNote is the path of a file, outside the tree, in which Fork records the path of its incomplete
	// copy, so that [RemoveAbandonedFork] finds the copy that a killed process left. Without it, that copy
	// stays beside the fork's target.
	ForkNote string
	// Exclude lists the absolute paths of files, and of directories that a snapshot never enters, such as
	// segno's own store if it is inside the tree.
	Exclude []string
	// Databases, if not nil, returns the absolute paths of files that another package saves: trees only
	// record that they exist. beside are additional files next to them, which trees do not record at all.
	Databases func() (databases, beside []string)
	// GitIgnore is the path of the user's own git ignore file. It applies to each repository when a snapshot
	// decides whether git ignores a large file. "" means none.
	GitIgnore string
	// Progress, if not nil, is called during a snapshot with the number of bytes read so far and the number
	// currently known to need reading. Calls do not overlap.
	Progress func(done, total int64)
	// Applied, if not nil, is called during Apply with the amount of work that is done and the amount of all its work. The
	// unit has no meaning.
	Applied func(done, total int64)
	// FS makes all writes; nil means [vfs.OS].
	FS vfs.FS
	// Watch, if not nil, keeps the index in memory between the Dirs that share it, and SnapshotWatched relies on its
	// watcher. It must be of the same directory.
	Watch *Watch
	// DialWatch, if not nil, connects to another process that watches the tree: see [Watch.Serve].
	DialWatch func() (WatchConn, error)
}

// Sealer encrypts a file that segno keeps outside the tree. OpenFile is the inverse of SealFile, and fails
// for the content of another file.
type Sealer interface {
	SealFile(name string, plain []byte) []byte
	OpenFile(name string, data []byte) ([]byte, error)
}

// Dir is a directory tree in which an agent works. It implements [segno.Workspace].
type Dir struct {
	options  Options
	root     string
	cache    *objectCache     // objects of the newest snapshot
	cached   *cachedIndex     // index of the newest snapshot, if there is no Watch
	coverage []segno.Coverage // the arguments of Cover

	unsynced bool // the tree need not survive the machine: Apply syncs nothing

	budget   budget
	readFull func(f *fileHandle, buf []byte) (int, error) // tests replace it

	// listNames lists a directory during a restore. nil means [dirHandle.foldedNames]. Tests set it to simulate a file system that
	// folds names.
	listNames func(dir string) ([]string, error)
}

var _ segno.Workspace = (*Dir)(nil)

// Open returns the tree in the directory root. The error has [segno.KindInvalid] if a required option is
// missing, and [segno.KindNotFound] if the directory does not exist.
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
	d := &Dir{options: o, root: real, cache: newObjectCache(o.Objects), budget: newBudget(), readFull: readFull}
	o.Watch.use(d)
	return d, nil
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

// pathError returns an error about a path. Its kind is that of err, or else the kind that fits the cause.
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

// reserved returns the paths in the tree that do not belong to the user or that another package saves.
func (d *Dir) reserved() reserved {
	r := reserved{own: d.inTree(d.options.Exclude)}
	if d.options.Databases != nil {
		databases, beside := d.options.Databases()
		r.databases, r.beside = d.inTree(databases), d.inTree(beside)
	}
	return r
}

// inTree returns those of the absolute paths that are inside the tree, relative to the root.
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

// inside returns path relative to dir, or "" for dir itself. It returns false if path is not at or below dir.
func inside(dir, path string) (string, bool) {
	if dir == path {
		return "", true
	}
	if !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	return strings.CutPrefix(path, dir)
}
