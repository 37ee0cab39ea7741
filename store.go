package segno

import (
	"context"
	"io"
	"iter"
	"time"
)

// Store keeps threads, entries, checkpoints and objects. It copies its arguments and
// results. All methods may be called at once, from many goroutines and many processes.
// Package store/storetest tests an implementation.
//
// Errors are [Error]s: [KindNotFound] for a missing record and [KindCorrupt] for a damaged one,
// and these two are never confused; [KindBusy] if the writer's lock was not available in time;
// [KindIO] if the disk, the operating system or the network failed; [KindNewer] for a store of a
// newer version; [KindCancelled] if ctx ends. After KindCancelled, nothing was written. After
// [KindIO] or [KindBusy], the change may have been made: the caller repeats the Commit with the
// same ID, and the store applies it only once. These are the rules of a Store. The key-value
// store below store/kv has weaker ones; see its KV.
type Store interface {
	// Commit applies c and returns the new head. c is durable on return, unless it is
	// [Batched]. Commit returns [KindConflict] with a [ConflictError] if the head is not
	// c.Expect.
	Commit(ctx context.Context, c Commit) (Head, error)
	// Head returns the head and the tip of a thread.
	Head(ctx context.Context, thread ThreadID) (Head, error)
	// Load returns the line of a commit, oldest first: the commit and its ancestors, across
	// threads, but no commit of another line.
	Load(ctx context.Context, at CommitID, w Window) (*Line, error)
	// Checkpoints yields checkpoints newest first, without entries.
	Checkpoints(ctx context.Context, q CheckpointQuery) iter.Seq2[Checkpoint, error]
	// Threads yields threads, the most recently changed first. A query with a Phase reads an
	// index, so that its cost does not depend on the threads in other phases. A query with both
	// Phase and Session is [KindInvalid].
	Threads(ctx context.Context, q ThreadQuery) iter.Seq2[Thread, error]
	// Objects returns the object part.
	Objects() Objects
	// Delete hides a thread. Commits that a fork reaches stay.
	Delete(ctx context.Context, thread ThreadID) error
	// Close waits for calls in progress, but ends those that wait in a [Watcher]. Later calls
	// return [KindInvalid].
	io.Closer
}

// Ancestors yields the commit at and its ancestors, newest first. It loads w.Last commits
// and then ever larger windows, because most callers need only the newest ones.
func Ancestors(ctx context.Context, s Store, at CommitID, w Window) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		for seen := 0; ; w.Last *= 8 {
			w.Last = max(w.Last, 1)
			line, err := s.Load(ctx, at, w)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := len(line.Commits) - 1 - seen; i >= 0; i-- {
				if !yield(&line.Commits[i], nil) {
					return
				}
			}
			if seen = len(line.Commits); seen < w.Last {
				return
			}
		}
	}
}

// Line is a path of commits, oldest first.
type Line struct {
	Commits []Node
}

// Node is one commit of a [Line].
type Node struct {
	ID         CommitID
	Thread     ThreadID
	Parent     CommitID
	Seq        int64
	Checkpoint *Checkpoint // nil for a commit that only has entries
	Entries    []Entry     // nil if the [Window] did not ask for entries
}

// Window is the part of a line to load.
type Window struct {
	// Last is the maximum number of commits, counted from the newest; 0 means all.
	Last int
	// Entries also loads the entries.
	Entries bool
}

// CheckpointQuery selects checkpoints. A zero field excludes none.
type CheckpointQuery struct {
	Thread    ThreadID
	Workspace WorkspaceID       // that pin a snapshot of this workspace
	Session   SessionID         // with this session in the session tier
	Leaf      string            // whose session tier ends at this record of the transcript
	Key       TurnKey           // that end this turn
	Step      int               // that end the step with this number
	Meta      map[string]string // with all of these pairs in Meta
	IDPrefix  string            // whose id begins with this prefix
	Pinned    bool              // that have a pin; Label then holds its name
	Before    int64             // with Thread: with a lower Seq; a cursor that stays valid when checkpoints are added
	Limit     int
}

// ThreadQuery selects threads. A zero field excludes none.
type ThreadQuery struct {
	Workspace    WorkspaceID // that started in this workspace
	Session      SessionID   // with this session in the chain
	ParentThread ThreadID    // that are parts of this thread
	TopLevel     bool        // that are not part of another thread
	Phase        Phase       // that are in this phase, ordered by id
	After        ThreadID    // with Phase: with a greater id; a cursor that stays valid when threads change
	IDPrefix     string
	Limit        int
}

// Chains is implemented by stores that can read the whole chain of a thread.
type Chains interface {
	// Chain yields a thread's links, oldest first.
	Chain(ctx context.Context, thread ThreadID) iter.Seq2[Link, error]
}

// Workspaces is implemented by stores that keep records of workspaces, and a log of the
// operations on each.
type Workspaces interface {
	// Workspace returns one record.
	Workspace(ctx context.Context, id WorkspaceID) (WorkspaceRecord, error)
	// FindWorkspaces yields the records with one of paths, or with this device and inode if inode
	// is not 0, longest path first. Without paths and inode it yields all records.
	FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[WorkspaceRecord, error]
	// PutWorkspace creates or replaces a record, except for its State, which does not change.
	PutWorkspace(ctx context.Context, w WorkspaceRecord) error
	// Operations yields a workspace's log, newest first.
	Operations(ctx context.Context, id WorkspaceID) iter.Seq2[Operation, error]
}

// Renamer is implemented by stores that can change the title of a thread.
type Renamer interface {
	// Rename changes the title of a thread from the value from to the value to. The error has
	// [KindConflict] if the title is neither of them. The new title is durable on return.
	Rename(ctx context.Context, thread ThreadID, from, to string) error
}

// Leaser is implemented by stores that can limit a thread to one writer.
type Leaser interface {
	// Acquire takes or renews the lease on a thread. If another owner holds a lease that has not
	// expired, the error has [KindBusy]. Taking a lease raises the epoch.
	Acquire(ctx context.Context, l Lease) (Lease, error)
	// Release ends the lease; the epoch stays. A process may release the lease of another owner
	// that has exited.
	Release(ctx context.Context, l Lease) error
	// LeaseOf returns the current lease on a thread, or the zero Lease if there is none.
	LeaseOf(ctx context.Context, thread ThreadID) (Lease, error)
}

// Collector is implemented by stores that can drop unreachable records.
type Collector interface {
	Collect(ctx context.Context, p CollectPolicy) (Collection, error)
}

// CollectPolicy selects the records that a collection keeps in addition to heads, tips and their
// ancestors, forks, pins and operations.
type CollectPolicy struct {
	DryRun bool
	// Retain selects which of the lines that neither head nor tip reaches stay; nil keeps all of
	// them. timeline.Retention.Lines makes it.
	Retain *RetainedLines
	// Checkpoints are further checkpoints to keep with their objects: those of open turns.
	Checkpoints []Checkpoint
	// Trace calls visit for each object that a checkpoint reaches. If visit returns false, it has
	// already received that object, and Trace skips the references of the object. It follows them
	// nevertheless if visit received the object only as the content of a file, because a file may
	// have the bytes of an object with references.
	Trace func(ctx context.Context, o Objects, c Checkpoint, visit func(Hash) bool) error
}

// RetainedLines selects checkpoints that a collection keeps although neither head nor tip reaches them. A nil
// RetainedLines keeps everything.
type RetainedLines struct {
	Since   time.Time          // younger checkpoints and operations stay
	Newest  map[ThreadID]int64 // for a thread: checkpoints from this Seq on stay; a thread without an entry stays whole
	Waiting map[CommitID]bool  // ends of lines with open questions; these checkpoints stay
}

// Keeps reports whether a checkpoint stays. A checkpoint without a time always stays.
func (k *RetainedLines) Keeps(c *Checkpoint) bool {
	if k == nil || c == nil {
		return true
	}
	from, known := k.Newest[c.Thread]
	return !known || c.Seq >= from || c.Time.IsZero() || !c.Time.Before(k.Since) || k.Waiting[c.ID]
}

// KeepsOperation reports whether an operation keeps the two checkpoints between which it moved
// the thread.
func (k *RetainedLines) KeepsOperation(o *Operation) bool {
	return k == nil || o.Time.IsZero() || !o.Time.Before(k.Since)
}

// Collection is the result of a collection.
type Collection struct {
	Checkpoints int   `json:"checkpoints"` // dropped
	Objects     int   `json:"objects"`     // dropped
	Bytes       int64 `json:"bytes"`       // freed, as stored
	Kept        int   `json:"kept"`        // objects that stay
}

// Eraser is implemented by stores that can erase deleted threads. timeline.Purge deletes a thread
// and erases it.
type Eraser interface {
	// Erase removes the data that only deleted threads reach: their entries, checkpoints and
	// objects of any age, and their titles, sessions and operations, wherever the store keeps
	// them. It keeps the data that a [Collector] keeps. It also keeps the ids of threads and
	// commits, so that the store can refuse a late writer. The policy's Trace finds the objects;
	// without Trace all objects stay. Erase may be repeated after any error, and may be called if
	// there is nothing to erase.
	//
	// Erase may remove an object while a [Batch] relies on the stored copy. The commit of that
	// batch then fails with [KindNotFound], and the caller stages the batch again.
	Erase(ctx context.Context, p CollectPolicy) (Collection, error)
}

// Checker is implemented by stores that can verify all their data.
type Checker interface {
	// Check reads every record and every object and reports each one that is damaged or missing.
	// It stops early only if report returns false or ctx ends.
	Check(ctx context.Context, p CheckPolicy, report func(error) bool) (Checked, error)
}

// CheckPolicy holds the function that follows references in a check.
type CheckPolicy struct {
	Trace func(ctx context.Context, o Objects, c Checkpoint, visit func(Hash) bool) error
}

// Checked counts the records that a check read.
type Checked struct {
	Threads     int   `json:"threads"`
	Checkpoints int   `json:"checkpoints"`
	Objects     int   `json:"objects"`
	Bytes       int64 `json:"bytes"`
	Damaged     int   `json:"damaged"`
}
