package segno

import (
	"context"
	"strings"
	"time"
)

// Workspace is a directory tree that an agent works in. Package workspace implements it.
//
// The caller of a method that reads or writes the directory must hold the lock of the workspace. Diff, Lost
// and Merge only read objects and need no lock.
type Workspace interface {
	ID() WorkspaceID
	// Root is the tree's absolute path, symlinks resolved.
	Root() string
	// Snapshot saves the present tree and puts new objects into b. Unread lists the paths that could not be
	// read; the snapshot never contains an older state of them.
	Snapshot(ctx context.Context, b Batch) (Snapshot, error)
	// SnapshotWatched is a Snapshot that may leave out directories in which a watcher saw no change. It misses a change
	// that the system does not report; the next Snapshot finds that. Nothing is overwritten because of it, since Apply reads
	// the present content.
	SnapshotWatched(ctx context.Context, b Batch) (Snapshot, error)
	// SnapshotAt is a faster Snapshot right after another one, for a caller that since then changed nothing
	// but paths. The next Snapshot finds all other changes.
	SnapshotAt(ctx context.Context, b Batch, paths []string) (Snapshot, error)
	// Cover makes the following calls of Snapshot and Apply also save the paths that the given trees saved.
	// Without arguments, the rules of the workspace alone decide.
	Cover(with ...Coverage)
	// Diff returns the changes that turn a into b, sorted by path, without modification times. The zero hash
	// is the empty tree, so Diff(ctx, Hash{}, tree) lists a tree: each Change.To is the entity at
	// Change.Path. To look up a single path, use workspace.Lookup. Either tree may be from the newest
	// Snapshot, even before it is committed.
	Diff(ctx context.Context, a, b Hash) ([]Change, error)
	// Lost returns how many files tree a saved that tree b only records as protected.
	Lost(ctx context.Context, a, b Hash) (files int, err error)
	// Touched returns when each path last changed in any way. For a missing path it returns when the nearest
	// directory above it changed.
	Touched(ctx context.Context, paths []string) ([]time.Time, error)
	// Existing returns the deepest existing directory on the path rel below root. becomes returns the type
	// that a planned move gives a path, and whether the move changes that path.
	Existing(root, rel string, becomes func(path string) (EntityType, bool)) string
	// Merge merges two versions of a file that were made from base. conflict is "" if the
	// merge is clean, else the reason.
	Merge(base, ours, theirs []byte) (merged []byte, conflict string)
	// Compose returns a copy of onto in which the paths are as in base.
	Compose(ctx context.Context, b Batch, onto, base Snapshot, paths []string) (Snapshot, error)
	// WithChanges returns a copy of onto with the changes applied. Modification times come from base.
	WithChanges(ctx context.Context, b Batch, onto, base Snapshot, changes []Change) (Snapshot, error)
	// Apply writes To to the path of each change if the path still equals From, and returns the changes that
	// it could not make. A path that already equals To is not an error, so that an interrupted Apply can be
	// repeated. times, which may be zero, is the Times of the snapshot to which the changes lead. Apply reads
	// back the files that it wrote.
	Apply(ctx context.Context, steps []Change, times Hash) ([]Conflict, error)
	// Fork makes dir, which must not exist, a copy of the tree at s. Protected files and
	// the .git directory are copied as they are now. The result is the new workspace's
	// root.
	Fork(ctx context.Context, s Snapshot, dir string) (ForkReport, error)
	// GitCommand returns the shell command with which the user, after a move of files, moves git's HEAD to
	// its position at an earlier snapshot. It returns "" if that is not needed or no command is safe. written
	// holds the entities that the move writes, by path; content returns the content of one of them. The
	// command never makes a commit unreachable.
	GitCommand(ctx context.Context, then Git, written map[string]Entity, content func(Hash) ([]byte, error)) string
}

// Snapshot is one saved state of a workspace.
type Snapshot struct {
	Workspace WorkspaceID `json:"workspace"`
	Root      string      `json:"root"`             // the path of the root at that time
	Tree      Hash        `json:"tree"`             // its name: covers names, types, modes, contents, links, xattrs
	Times     Hash        `json:"times,omitzero"`   // modification times, which are not part of Tree
	Files     int         `json:"files"`            // the number of files
	Bytes     int64       `json:"bytes"`            // the size of their contents
	Unread    []string    `json:"unread,omitempty"` // paths that could not be read or are beyond the budget, and databases ([DatabasePath]): the snapshot is partial
	Held      []string    `json:"held,omitempty"`   // topmost saved paths that a rule now protects, at most [MaxHeld]
	Git       *Git        `json:"git,omitempty"`    // the repository that contains the workspace, as segno read it
	World     *Document   `json:"world,omitempty"`  // the databases that were attached to it; nil if there were none
}

// Equals reports whether two snapshots record the same state, so that a checkpoint of one adds nothing to the
// other. For a database in Unread, Equals does not compare the content, because neither snapshot has it.
// Either may be nil.
func (s *Snapshot) Equals(o *Snapshot) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Tree == o.Tree && (s.World == o.World || s.World != nil && o.World != nil && *s.World == *o.World)
}

// MaxHeld is the largest number of paths that a snapshot lists as held.
const MaxHeld = 64

// Git is the state of the user's repository at a snapshot. segno never writes to it.
type Git struct {
	Head      string `json:"head,omitempty"`      // the commit
	Branch    string `json:"branch,omitempty"`    // "" when detached
	Operation string `json:"operation,omitempty"` // "merge", "rebase", … when one is in progress
}

// Entity is the file, directory or link at one path of a tree. The zero Entity stands for a missing path.
type Entity struct {
	Type   EntityType `json:"type,omitempty"`
	Mode   uint32     `json:"mode,omitempty"`   // permission bits and setuid, setgid, sticky, as chmod(2) takes them
	Hash   Hash       `json:"hash,omitzero"`    // of the content of a file or hard link
	Size   int64      `json:"size,omitempty"`   // of the content of a file or hard link
	Target string     `json:"target,omitempty"` // of a symlink; for a hard link, the path of its first name
	Xattrs Hash       `json:"xattrs,omitzero"`  // of the user extended attributes, encoded
	Owner  Owner      `json:"owner,omitzero"`   // of a file or directory with setuid or setgid, else zero
	Why    string     `json:"why,omitempty"`    // why it is protected
}

// HasContent reports whether e is a file or a hard link, whose content Hash names.
func (e Entity) HasContent() bool { return e.Type == EntityFile || e.Type == EntityHardLink }

// Owner is the user and the group whose rights setuid and setgid grant. Snapshots made before owners were
// recorded have the zero Owner.
type Owner struct {
	Known bool   `json:"known"` // whether the owner was recorded
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
}

// EntityType is the type of an [Entity].
type EntityType string

// The types of entity.
const (
	EntityNone      EntityType = ""
	EntityFile      EntityType = "file"
	EntityDir       EntityType = "dir"
	EntitySymlink   EntityType = "symlink"
	EntityHardLink  EntityType = "hardlink"
	EntityProtected EntityType = "protected" // recorded, not stored, never touched
	EntityDatabase  EntityType = "database"  // an attached database; only in changes, never in a tree
)

// Change is the difference between two trees at one path.
type Change struct {
	Path string `json:"path"` // relative to the root, slash-separated, any bytes
	From Entity `json:"from"`
	To   Entity `json:"to"`
	// Merged reports whether To also contains changes of another author.
	Merged bool `json:"merged,omitempty"`
}

// TableChange is a table that differs between two states of an attached database.
type TableChange struct {
	Name   string `json:"name"`
	Before int64  `json:"rows_before"` // -1 if the database lacks the table
	After  int64  `json:"rows_after"`  // -1 if the database lacks the table
}

// WhyDatabase is the reason for which a tree does not contain the file of an attached database.
const WhyDatabase = "attached database"

// databasePrefix begins the paths that name databases. The path of a file never contains a zero byte.
const databasePrefix = "\x00database/"

// DatabasePath returns the path of a [Change] of the attached database with a name.
func DatabasePath(name string) string { return databasePrefix + name }

// DatabaseName returns the name of a database from the path of a [Change]. ok is false if the path does not
// name a database.
func DatabaseName(path string) (name string, ok bool) { return strings.CutPrefix(path, databasePrefix) }

// Conflict is a path that was not written or not saved, and the reason.
type Conflict struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// ForkReport holds the method of a fork and the paths that the fork left out.
type ForkReport struct {
	Root    string   `json:"root"`
	How     string   `json:"how"` // "snapshot", "reflink", "copy", "store"
	Files   int      `json:"files"`
	LeftOut []string `json:"left_out,omitempty"` // protected paths that were not copied
	// Databases are the absolute paths of the copies of attached databases.
	Databases []string `json:"databases,omitempty"`
	// Unsaved lists the attached databases that the fork lacks because the checkpoint does not have them, and
	// the properties that a copy lacks because the user may not set them.
	Unsaved []Conflict `json:"unsaved,omitempty"`
}

// WorkspaceRecord is a store's record of a workspace.
type WorkspaceRecord struct {
	ID      WorkspaceID    `json:"id"`
	Path    string         `json:"path"` // the real path of the root when segno last found it
	Device  uint64         `json:"device"`
	Inode   uint64         `json:"inode"`
	Created time.Time      `json:"created"`
	Moved   []string       `json:"moved,omitempty"` // earlier paths, oldest first
	State   WorkspaceState `json:"state"`
}

// WorkspaceState is the state of a workspace after the newest commit about it.
type WorkspaceState struct {
	Workspace WorkspaceID `json:"workspace"`
	Thread    ThreadID    `json:"thread,omitempty"` // the thread that works in the workspace
	Snapshot  *Snapshot   `json:"snapshot,omitempty"`
	By        CommitID    `json:"by,omitempty"` // the commit that recorded this state
	Time      time.Time   `json:"time,omitzero"`
}

// Coverage names a tree whose saved paths stay saved even if the rules of the workspace now protect them. An
// agent can write rules: without a coverage, a marker file would end the recording of the paths beside it.
type Coverage struct {
	Tree Hash
	// Strict keeps every path that the tree saved, and judges new paths by the tree's own .segnoignore. It is
	// for the time in which an agent may have written the rules. Without Strict, a path stays saved only if
	// the tree itself contains the rule, because in that case a turn made the rule. A later rule is the
	// user's.
	Strict bool
}
