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
// Errors are [Error]s: [KindNotFound] for a missing record and [KindCorrupt] for a damaged
// one, never one for the other; [KindBusy] if the lock of the writer was not available in
// time; [KindIO] if the disk, the operating system or the network failed; [KindNewer] for a
// store of a newer version; [KindCancelled] when ctx ends. After KindCancelled nothing was
// written. After [KindIO] or [KindBusy] a change may have been made: the caller repeats a
// Commit with the same ID, which is made once. (These are rules of a Store. The key-value
// store below store/kv has weaker ones; see its KV.)
type Store interface {
	// Commit applies c and returns the new head. c is durable on return. Commit
	// returns [KindConflict] with a [ConflictError] if the head is not c.Expect.
	Commit(ctx context.Context, c Commit) (Head, error)
	// Head returns the head and the tip of a thread.
	Head(ctx context.Context, thread ThreadID) (Head, error)
	// Load returns a commit's line: itself and its ancestors, across threads,
	// oldest first, and nothing of any other line.
	Load(ctx context.Context, at CommitID, w Window) (*Line, error)
	// Checkpoints yields checkpoints newest first, without entries.
	Checkpoints(ctx context.Context, q CheckpointQuery) iter.Seq2[Checkpoint, error]
	// Threads yields threads, the most recently changed first. By phase it reads an index, so
	// that its cost does not depend on the threads in other phases; Phase and Session
	// together are [KindInvalid].
	Threads(ctx context.Context, q ThreadQuery) iter.Seq2[Thread, error]
	// Objects returns the object part.
	Objects() Objects
	// Delete hides a thread. Commits that a fork reaches stay.
	Delete(ctx context.Context, thread ThreadID) error
	// Close waits for calls under way, but ends those that wait in a [Watcher].
	// Later calls get [KindInvalid].
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
	Checkpoint *Checkpoint // nil for a commit of entries alone
	Entries    []Entry     // nil if the [Window] asked for none
}

// Window is the part of a line to load.
type Window struct {
	// Last is how many commits at most, counted from the newest; 0 is all.
	Last int
	// Entries also loads the entries.
	Entries bool
}

// CheckpointQuery chooses checkpoints. Zero fields choose nothing out.
type CheckpointQuery struct {
	Thread    ThreadID
	Workspace WorkspaceID       // that pin a snapshot of it
	Session   SessionID         // with this session in the session tier
	Leaf      string            // that end at this record of the transcript
	Key       TurnKey           // that end this turn
	Step      int               // that end this step
	Meta      map[string]string // with all of these pairs in Meta
	IDPrefix  string            // with an id that begins so
	Pinned    bool              // that have a pin; its name is then the Label
	Before    int64             // with Thread: with a lower seq; a cursor that appends do not disturb
	Limit     int
}

// ThreadQuery chooses threads. Zero fields choose nothing out.
type ThreadQuery struct {
	Workspace    WorkspaceID // that started there
	Session      SessionID   // with this session in the chain
	ParentThread ThreadID    // that are parts of this one
	TopLevel     bool        // that are no part of another
	Phase        Phase       // that are in this phase; they come in the order of their ids
	After        ThreadID    // with Phase: with a greater id; a cursor that changes do not disturb
	IDPrefix     string
	Limit        int
}

// Chains is the ability to read a thread's whole chain.
type Chains interface {
	// Chain yields a thread's links, oldest first.
	Chain(ctx context.Context, thread ThreadID) iter.Seq2[Link, error]
}

// Workspaces is the ability to keep records of workspaces, and a log of the operations on each.
type Workspaces interface {
	// Workspace returns one record.
	Workspace(ctx context.Context, id WorkspaceID) (WorkspaceRecord, error)
	// FindWorkspaces yields the records at one of paths, or with this device and
	// inode if inode is not 0, longest path first. Without either it yields all.
	FindWorkspaces(ctx context.Context, paths []string, device, inode uint64) iter.Seq2[WorkspaceRecord, error]
	// PutWorkspace creates or replaces a record; its State is left as it is.
	PutWorkspace(ctx context.Context, w WorkspaceRecord) error
	// Operations yields a workspace's log, newest first.
	Operations(ctx context.Context, id WorkspaceID) iter.Seq2[Operation, error]
}

// Renamer is the ability to change the title of a thread.
type Renamer interface {
	// Rename replaces the title from of a thread by to. The error has [KindConflict] if the title
	// is neither of them. The new title is durable on return.
	Rename(ctx context.Context, thread ThreadID, from, to string) error
}

// Leaser is the ability to make one writer the only one.
type Leaser interface {
	// Acquire takes or renews the lease on a thread. A lease held by another
	// owner and not yet expired gives [KindBusy]. Taking it raises the epoch.
	Acquire(ctx context.Context, l Lease) (Lease, error)
	// Release ends the lease; the epoch stays. Another process may release the lease of
	// an owner that is gone.
	Release(ctx context.Context, l Lease) error
	// LeaseOf returns the lease on a thread that is in force, the zero Lease if there
	// is none.
	LeaseOf(ctx context.Context, thread ThreadID) (Lease, error)
}

// Collector is the ability to drop unreachable records.
type Collector interface {
	Collect(ctx context.Context, p CollectPolicy) (Collection, error)
}

// CollectPolicy selects the records that a collection keeps in addition to heads, tips and their
// ancestors, forks, pins and operations.
type CollectPolicy struct {
	DryRun bool
	// Retain selects which of the lines that neither head nor tip reaches stay; nil keeps all
	// of them. The method Lines of timeline.Retention makes it.
	Retain *RetainedLines
	// Checkpoints are further checkpoints to keep with their objects: those of open turns.
	Checkpoints []Checkpoint
	// Trace calls visit for each object that a checkpoint reaches. visit returns
	// false for an object that it has seen. Trace then skips the references of that object.
	Trace func(ctx context.Context, o Objects, c Checkpoint, visit func(Hash) bool) error
}

// RetainedLines selects checkpoints that a collection keeps although neither head nor tip reaches them. A nil
// RetainedLines keeps everything.
type RetainedLines struct {
	Since   time.Time          // younger checkpoints and operations stay
	Newest  map[ThreadID]int64 // of a thread the checkpoints from this seq on stay; a thread that is not listed stays whole
	Waiting map[CommitID]bool  // ends of lines with open questions, which stay
}

// Keeps reports whether a checkpoint stays. A checkpoint without a time does.
func (k *RetainedLines) Keeps(c *Checkpoint) bool {
	if k == nil || c == nil {
		return true
	}
	from, known := k.Newest[c.Thread]
	return !known || c.Seq >= from || c.Time.IsZero() || !c.Time.Before(k.Since) || k.Waiting[c.ID]
}

// KeepsOperation reports whether an operation keeps the checkpoints it moved between.
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

// Eraser is the ability to erase deleted threads. timeline.Purge deletes a thread and erases it.
type Eraser interface {
	// Erase removes the data that only deleted threads reach: their entries, checkpoints and
	// objects of any age, and their titles, sessions and operations, wherever the store
	// keeps them. It keeps the data that [Collector] keeps, and the ids of threads and commits, so
	// that a late writer is refused. The policy's Trace finds the objects; without it all
	// objects stay. Erase may be called again after any error, and with nothing to erase.
	//
	// A batch that found an object in the store while it was erased cannot be committed:
	// its commit is [KindNotFound], and the caller stages it again.
	Erase(ctx context.Context, p CollectPolicy) (Collection, error)
}

// Checker is the ability to prove a store sound.
type Checker interface {
	// Check reads every record and every object and reports each that is damaged
	// or missing. It ends early only if report returns false or ctx ends.
	Check(ctx context.Context, p CheckPolicy, report func(error) bool) (Checked, error)
}

// CheckPolicy has the function that follows references in a check.
type CheckPolicy struct {
	Trace func(ctx context.Context, o Objects, c Checkpoint, visit func(Hash) bool) error
}

// Checked counts the records that a check has read.
type Checked struct {
	Threads     int   `json:"threads"`
	Checkpoints int   `json:"checkpoints"`
	Objects     int   `json:"objects"`
	Bytes       int64 `json:"bytes"`
	Damaged     int   `json:"damaged"`
}
