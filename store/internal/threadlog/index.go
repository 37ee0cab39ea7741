package threadlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

// Index is a copy of all logs without the entries, which each Load reads again. After an erasure changed the logs, a
// new Index replaces the whole Index.
//
// The records of one thread are applied in their order, but the logs may be read in any order. So the index
// never looks up another thread while it applies a record: a fork may be read before its source.
type Index struct {
	Order   int64              // the highest order of all records
	Threads map[string]*Thread // threads by their names

	name       func(segno.ThreadID) string
	commits    map[segno.CommitID]*Commit
	pins       map[segno.CommitID]ordered[string]
	states     map[segno.WorkspaceID]ordered[segno.WorkspaceState]
	operations map[segno.OperationID]ordered[segno.Operation]
}

// ordered is a value with the order of the record that set it. Logs are read in any order, and the
// value of the newest record counts.
type ordered[T any] struct {
	value T
	order int64
}

// Thread is the state of a thread according to the part of its log that was read.
type Thread struct {
	ledger.Thread
	Name    string // name of the log
	Records int64  // number of records in the part that was read
	Size    int64  // size of the part that was read
	End     int64  // end of the log's part that is known to be durable
	Damage  error  // the reason why the log cannot be read after Size

	created segno.Thread // the thread in its first commit
	changed int64        // the order of its newest commit
	links   []segno.Link
	link    int // the number of the head session's link in links, from 1, or 0
	lease   segno.Lease
	commits []*Commit // in order of seq, which begins with 1
}

// Commit is a commit in a log. It never changes.
type Commit struct {
	segno.Node // has no entries
	Log        *Thread
	At, End    int64 // the position of its record in the log
	Count      int   // number of its entries, which ReadEntries reads

	order  int64
	digest segno.Hash
	result segno.Head
	isNode bool // also false for an erased node
	turn   int
}

// NewIndex returns an empty index. name returns the name of a thread's log.
func NewIndex(name func(segno.ThreadID) string) *Index {
	return &Index{
		name: name, Threads: map[string]*Thread{}, commits: map[segno.CommitID]*Commit{}, pins: map[segno.CommitID]ordered[string]{},
		states: map[segno.WorkspaceID]ordered[segno.WorkspaceState]{}, operations: map[segno.OperationID]ordered[segno.Operation]{},
	}
}

// Thread returns the thread with a name, and adds it if the index does not have it.
func (x *Index) Thread(name string) *Thread {
	t := x.Threads[name]
	if t == nil {
		t = &Thread{Name: name}
		x.Threads[name] = t
	}
	return t
}

// find returns a commit. If the index lacks the commit and a log is damaged, the commit may be in
// that log, so the error is about the log.
func (x *Index) find(id segno.CommitID) (*Commit, error) {
	if c := x.commits[id]; c != nil {
		return c, nil
	}
	return nil, append(x.damage(), notFound("find commit", string(id)))[0]
}

// damage returns the errors about the threads that cannot be read.
func (x *Index) damage() (all []error) {
	for _, t := range x.Threads {
		if t.Damage != nil {
			all = append(all, t.Damage)
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}

// Apply adds a record that ends at end to the index. It checks that the record continues the log, because a line that
// was lost, repeated, moved or copied from another thread also has a valid checksum.
func (x *Index) Apply(t *Thread, r *Record, end int64) (err error) {
	switch {
	case r.N != t.Records:
		err = fmt.Errorf("its number is %d", r.N)
	case r.Commit != nil:
		err = x.applyCommit(t, r, end)
	case t.Records == 0:
		err = errors.New("the thread does not begin with a commit")
	case r.Lease != nil:
		t.lease, t.Epoch = *r.Lease, r.Lease.Epoch
	case r.Hidden:
		t.Deleted = true
	default:
		err = errors.New("it is not a record of a thread")
	}
	if err != nil {
		return err
	}
	t.Records, t.Size = t.Records+1, end
	x.Order = max(x.Order, r.Order)
	return nil
}

// checkCommit returns an error unless the commit of a record can be the next one of a thread.
func (x *Index) checkCommit(t *Thread, r *Record) error {
	c, seq := r.Commit, int64(len(t.commits))+1
	switch {
	case x.name(c.Thread) != t.Name || t.Records > 0 && c.Thread != t.created.ID:
		return fmt.Errorf("it belongs to thread %q", c.Thread)
	case (t.Records == 0) != (c.Create != nil):
		return errors.New("only the first record creates the thread")
	case r.Head.Seq != seq:
		return fmt.Errorf("its sequence number is %d, not %d", r.Head.Seq, seq)
	case x.commits[c.ID] != nil:
		return fmt.Errorf("commit %q is in the store twice", c.ID)
	}
	return nil
}

func (x *Index) applyCommit(t *Thread, r *Record, end int64) error {
	if err := x.checkCommit(t, r); err != nil {
		return err
	}
	c := r.Commit
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
	y := &Commit{Log: t, At: t.Size, End: end, Count: c.Entries, order: r.Order, digest: r.Digest, result: t.Head,
		isNode: c.Entries > 0 || c.Checkpoint != nil, turn: r.Turn}
	y.Node = segno.Node{ID: c.ID, Thread: c.Thread, Parent: c.Parent, Seq: r.Head.Seq}
	if c.Checkpoint != nil {
		y.Checkpoint = &c.Checkpoint.Checkpoint
		y.Checkpoint.ID, y.Checkpoint.Thread, y.Checkpoint.Parent, y.Checkpoint.Seq = c.ID, c.Thread, c.Parent, r.Head.Seq
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

// set sets the value of a key, unless a newer record already set it.
func set[K comparable, T any](values map[K]ordered[T], key K, value T, order int64) {
	if order >= values[key].order {
		values[key] = ordered[T]{value, order}
	}
}
