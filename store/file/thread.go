package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
)

// thread is what is known of a thread: an index of its log up to size. It is
// changed by the one who has its turn, with the store's lock.
type thread struct {
	segno.Thread
	id   segno.ThreadID
	dir  string
	turn chan struct{} // taken by whoever reads on in the log or appends to it

	size    int64  // of the part that was read
	n       int64  // records in it
	last    string // the checksum of the last one
	covered int64  // how long the log is, by changes
	gap     bool   // changes does not have all of the log
	damage  error  // why it could not be read on
	unsure  bool   // what was read may not be durable
	placed  bool   // its directory's name is durable

	head    segno.Head
	hidden  bool
	changed int64 // the order of its newest commit
	links   []segno.Link
	link    int // the place of the head session's in links, from 1; 0 is none
	lease   segno.Lease
	phase   segno.Phase
	commits []*commit // in order of seq: the first has 1
}

// commit is a commit's place in the store. It never changes.
type commit struct {
	segno.Node // without entries
	order      int64
	digest     segno.Hash
	result     segno.Head
	node       bool // has a place in the tree
	turn       int
	log        *thread
	at, end    int64 // its line in the log, the line break included
	entries    int
}

const logName = "log.jsonl"

func (t *thread) path() string { return filepath.Join(t.dir, logName) }

// thread returns what is known of a thread, which need not exist.
func (s *Store) thread(id segno.ThreadID) *thread {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.threadLocked(id)
}

// threadLocked is thread for who has the store's lock.
func (s *Store) threadLocked(id segno.ThreadID) *thread {
	t := s.threads[id]
	if t == nil {
		t = &thread{id: id, dir: filepath.Join(s.threadsDir(), nameOf(id)), turn: make(chan struct{}, 1)}
		s.threads[id] = t
	}
	return t
}

// exists reports whether there is anything of a thread. Asking for what is not
// there costs no memory.
func (s *Store) exists(op string, id segno.ThreadID) (bool, error) {
	s.mu.Lock()
	known := s.threads[id] != nil
	s.mu.Unlock()
	if known {
		return true, nil
	}
	dir := filepath.Join(s.threadsDir(), nameOf(id))
	_, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, fail(op, dir, err)
}

// fresh returns a thread as its log says it is now. A hidden one does not exist.
func (s *Store) fresh(ctx context.Context, op string, id segno.ThreadID) (*thread, error) {
	if ok, err := s.exists(op, id); err != nil {
		return nil, err
	} else if !ok {
		return nil, notFound(op, string(id))
	}
	t := s.thread(id)
	if err := s.look(ctx, op, t); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.n == 0 || t.hidden {
		return nil, notFound(op, string(id))
	}
	return t, nil
}

// look brings what is known of a thread up to date. That it does not exist is no
// error.
func (s *Store) look(ctx context.Context, op string, t *thread) error {
	size, err := s.sizeOf(op, t)
	if err != nil {
		s.mu.Lock()
		t.damage = err
		s.mu.Unlock()
		return err
	}
	if size == 0 {
		return nil
	}
	s.mu.Lock()
	current := size == t.size && t.damage == nil && !t.unsure
	s.mu.Unlock()
	if current {
		return nil
	}
	done, err := take(ctx, op, t.turn)
	if err != nil {
		return err
	}
	defer done()
	f, err := s.fs.OpenFile(t.path(), os.O_RDONLY, 0)
	if err != nil {
		return fail(op, t.path(), err)
	}
	defer f.Close()
	if err := s.lock(ctx, op, f, false); err != nil {
		return err
	}
	return s.readOn(ctx, op, t, f, false)
}

// sizeOf returns the length of a thread's log; 0 if there is no such thread.
func (s *Store) sizeOf(op string, t *thread) (int64, error) {
	fi, err := os.Stat(t.path())
	if err == nil && fi.Size() > 0 {
		return fi.Size(), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fail(op, t.path(), err)
	}
	// A thread's directory and its first record appear in one rename.
	s.mu.Lock()
	known := t.n > 0
	s.mu.Unlock()
	if _, dirErr := os.Lstat(t.dir); dirErr != nil && !errors.Is(dirErr, fs.ErrNotExist) {
		return 0, fail(op, t.dir, dirErr)
	} else if dirErr != nil && !known {
		return 0, nil
	}
	// It may have appeared between the two looks.
	if fi, err := os.Stat(t.path()); err == nil && fi.Size() > 0 {
		return fi.Size(), nil
	}
	return 0, corrupt(op, t.path(), errors.New("the thread's log is gone"))
}

// apply adds a record to the index. The caller has the thread's turn.
func (s *Store) apply(t *thread, r record, at, end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.N != t.n {
		return fmt.Errorf("it says it is record %d", r.N)
	}
	var err error
	switch {
	case r.Commit != nil:
		err = s.applyCommit(t, r, at, end)
	case t.n == 0:
		err = errors.New("the thread does not begin with a commit")
	case r.Lease != nil:
		t.lease, t.head.Epoch = *r.Lease, r.Lease.Epoch
	case r.Hidden:
		t.hidden = true
	default:
		err = errors.New("it is no record of a thread")
	}
	if err != nil {
		return err
	}
	t.n++
	t.last = r.CRC
	t.size, t.covered = end, max(t.covered, end)
	s.order = max(s.order, r.Order)
	return nil
}

func (s *Store) applyCommit(t *thread, r record, at, end int64) error {
	c := r.Commit
	switch {
	case c.Thread != t.id:
		return fmt.Errorf("it is of thread %q", c.Thread)
	case (t.n == 0) != (c.Create != nil):
		return errors.New("only the first record makes the thread")
	case r.Head.Seq != int64(len(t.commits))+1:
		return fmt.Errorf("its seq is %d", r.Head.Seq)
	case s.commits[c.ID] != nil && s.commits[c.ID].log == t:
		return fmt.Errorf("commit %q is there twice", c.ID)
	}
	if c.Create != nil {
		t.Thread = *c.Create
	}
	x := &commit{order: r.Order, digest: r.Digest, node: c.Entries > 0 || c.Checkpoint != nil, turn: r.Turn, log: t, at: at, end: end, entries: c.Entries}
	x.Node = segno.Node{ID: c.ID, Thread: c.Thread, Parent: c.Parent, Seq: r.Head.Seq}
	if c.Checkpoint != nil {
		x.Checkpoint = &c.Checkpoint.Checkpoint
		x.Checkpoint.ID, x.Checkpoint.Thread, x.Checkpoint.Parent, x.Checkpoint.Seq = c.ID, c.Thread, c.Parent, x.Seq
	}
	t.chain(c.Link)
	t.head = segno.Head{Thread: t.id, Head: r.Head.Head, Tip: r.Head.Tip, Seq: r.Head.Seq, Turn: r.Head.Turn, Epoch: r.Head.Epoch, Link: t.head.Link}
	t.changed = r.Order
	s.setPhase(t, r.Head.Phase)
	t.commits = append(t.commits, x)
	x.result = t.head
	if first := s.commits[c.ID]; first == nil || x.order < first.order {
		s.commits[c.ID] = x
	}
	delete(s.places, c.ID)
	s.applySides(c, r.Order)
	return nil
}

// setPhase records the phase of a thread. The caller has the store's lock.
func (s *Store) setPhase(t *thread, p segno.Phase) {
	p = min(p, segno.PhaseWaiting)
	delete(s.phases[t.phase], t)
	if s.phases[p] == nil {
		s.phases[p] = map[*thread]bool{}
	}
	t.phase, s.phases[p][t] = p, true
}

// applySides keeps what a commit says beside its thread. Logs are read in any
// order: the newest word counts.
func (s *Store) applySides(c *commitRecord, order int64) {
	if c.Pin != nil && order >= s.pins[c.Pin.Checkpoint].order {
		s.pins[c.Pin.Checkpoint] = pin{c.Pin.Name, order}
	}
	if c.Workspace != nil && order >= s.states[c.Workspace.Workspace].order {
		s.states[c.Workspace.Workspace] = state{*c.Workspace, order}
	}
	if c.Operation != nil && s.operations[c.Operation.ID].order == 0 {
		s.operations[c.Operation.ID] = operation{*c.Operation, order}
	}
}

// chain adds l to the chain, and makes it the head session unless it is aside.
func (t *thread) chain(l *segno.Link) {
	if l == nil {
		return
	}
	t.links = append(t.links, *l)
	if l.Detached {
		return
	}
	if t.link > 0 {
		t.links[t.link-1].End = l.Start
	}
	t.link, t.head.Link = len(t.links), *l
}
