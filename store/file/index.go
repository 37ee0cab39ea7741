package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ledger"
)

// index is what a process has read of the store. It is a copy of the logs without the entries, which are
// read again for each Load. It is replaced as a whole when an erasure has changed the logs.
type index struct {
	dir      string      // of all threads
	changes  os.FileInfo // of the file changes; nil if there is none
	read     int64       // of changes
	complete bool        // every log was read

	order      int64              // the highest of all records
	threads    map[string]*thread // by the names of their directories
	commits    map[segno.CommitID]*commit
	pins       map[segno.CommitID]ordered[string]
	states     map[segno.WorkspaceID]ordered[segno.WorkspaceState]
	operations map[segno.OperationID]ordered[segno.Operation]
}

// ordered is a value that the record with the order has set. Logs are read in any order, and the
// value of the newest record counts.
type ordered[T any] struct {
	value T
	order int64
}

// thread is the part of its log that was read.
type thread struct {
	ledger.Thread
	created segno.Thread // as its first commit describes it
	dir     string
	size    int64 // of the part that was read
	end     int64 // of the log, as far as it is known to be durable
	n       int64 // records in the part that was read
	damage  error // why the log cannot be read behind size
	changed int64 // the order of its newest commit
	links   []segno.Link
	link    int // the number of the head session's in links, from 1; 0 if there is none
	lease   segno.Lease
	commits []*commit // in the order of their seq, which begins with 1
}

// commit is a commit in a log. It never changes.
type commit struct {
	segno.Node // without entries
	order      int64
	digest     segno.Hash
	result     segno.Head
	isNode     bool // false also for a node that was erased
	turn       int
	log        *thread
	at, end    int64 // its line in the log
	entries    int
}

func newIndex(dir string) *index {
	return &index{dir: dir, threads: map[string]*thread{}, commits: map[segno.CommitID]*commit{}, pins: map[segno.CommitID]ordered[string]{},
		states: map[segno.WorkspaceID]ordered[segno.WorkspaceState]{}, operations: map[segno.OperationID]ordered[segno.Operation]{}}
}

// thread returns the thread in a directory, and adds it if the index does not have it.
func (x *index) thread(name string) *thread {
	t := x.threads[name]
	if t == nil {
		t = &thread{dir: filepath.Join(x.dir, name)}
		x.threads[name] = t
	}
	return t
}

// apply adds a record that ends at end to the index. It checks that the log continues: a line that was
// lost, repeated, moved or taken from another thread has a valid checksum, too.
func (x *index) apply(t *thread, r *record, end int64) (err error) {
	switch {
	case r.N != t.n:
		err = fmt.Errorf("its number is %d", r.N)
	case r.Commit != nil:
		err = x.applyCommit(t, r, end)
	case t.n == 0:
		err = errors.New("the thread does not begin with a commit")
	case r.Lease != nil:
		t.lease, t.Epoch = *r.Lease, r.Lease.Epoch
	case r.Hidden:
		t.Deleted = true
	default:
		err = errors.New("it is no record of a thread")
	}
	if err != nil {
		return err
	}
	t.n, t.size = t.n+1, end
	x.order = max(x.order, r.Order)
	return nil
}

func (x *index) applyCommit(t *thread, r *record, end int64) error {
	c, seq := r.Commit, int64(len(t.commits))+1
	switch {
	case nameOf(c.Thread) != filepath.Base(t.dir) || t.n > 0 && c.Thread != t.created.ID:
		return fmt.Errorf("it belongs to thread %q", c.Thread)
	case (t.n == 0) != (c.Create != nil):
		return errors.New("only the first record creates the thread")
	case r.Head.Seq != seq:
		return fmt.Errorf("its sequence number is %d, not %d", r.Head.Seq, seq)
	case x.commits[c.ID] != nil:
		return fmt.Errorf("commit %q is in the store twice", c.ID)
	}
	if c.Create != nil {
		t.created, t.Exists = *c.Create, true
	}
	link := t.Link
	if c.Link != nil {
		t.links = append(t.links, *c.Link)
		if !c.Link.Detached {
			if t.link > 0 {
				t.links[t.link-1].End = c.Link.Start
			}
			link, t.link = *c.Link, len(t.links)
		}
	}
	t.Head, t.Phase, t.changed = r.Head.Head, min(r.Head.Phase, segno.PhaseWaiting), r.Order
	t.Head.Thread, t.Head.Link = c.Thread, link
	y := &commit{order: r.Order, digest: r.Digest, result: t.Head, isNode: c.Entries > 0 || c.Checkpoint != nil, turn: r.Turn,
		log: t, at: t.size, end: end, entries: c.Entries}
	y.Node = segno.Node{ID: c.ID, Thread: c.Thread, Parent: c.Parent, Seq: seq}
	if c.Checkpoint != nil {
		y.Checkpoint = &c.Checkpoint.Checkpoint
		y.Checkpoint.ID, y.Checkpoint.Thread, y.Checkpoint.Parent, y.Checkpoint.Seq = c.ID, c.Thread, c.Parent, seq
	}
	t.commits, x.commits[c.ID] = append(t.commits, y), y
	if c.Pin != nil {
		set(x.pins, c.Pin.Checkpoint, c.Pin.Name, r.Order)
	}
	if c.Workspace != nil {
		set(x.states, c.Workspace.Workspace, *c.Workspace, r.Order)
	}
	if c.Operation != nil {
		set(x.operations, c.Operation.ID, *c.Operation, r.Order)
	}
	return nil
}

// set sets the value of a key, unless a newer record has set it.
func set[K comparable, T any](values map[K]ordered[T], key K, value T, order int64) {
	if order >= values[key].order {
		values[key] = ordered[T]{value, order}
	}
}
