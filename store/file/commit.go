package file

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/reach"
)

// Commit implements [segno.Store]. The objects it brings are durable before the
// log says so, and stay if the log cannot be written.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	const op = "commit"
	if err := c.Check(); err != nil {
		return segno.Head{}, err
	}
	digest, err := c.Digest()
	if err != nil {
		return segno.Head{}, err
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Head{}, err
	}
	defer end()
	if err := s.make(); err != nil {
		return segno.Head{}, fail(op, s.dir, err)
	}
	if err := s.gather(ctx, op, &c); err != nil {
		return segno.Head{}, err
	}
	if reach.NeedsOthers(&c) {
		release, err := s.lockObjects(ctx, op, false)
		if err != nil {
			return segno.Head{}, err
		}
		defer release()
	}
	for {
		head, err := s.try(ctx, op, &c, digest)
		if errors.Is(err, errMade) {
			continue // another process made the thread just now
		}
		if err != nil {
			return segno.Head{}, fail(op, string(c.ID), err)
		}
		s.notifier.Notify(c.Thread)
		return clone(head, same), nil
	}
}

// gather reads what the commit names in other threads. It has no thread's turn,
// and what it finds does not change any more.
func (s *Store) gather(ctx context.Context, op string, c *segno.Commit) error {
	done, err := s.find(ctx, op, c.ID)
	if err != nil {
		return err
	}
	if done != nil {
		return s.look(ctx, op, done.log)
	}
	for _, id := range named(c) {
		if _, err := s.search(ctx, op, id); err != nil && segno.KindOf(err) != segno.KindNotFound {
			return err
		}
	}
	if c.Operation != nil {
		_, err = s.readAll(ctx, op)
	}
	return err
}

// named are the commits that must be there before c.
func named(c *segno.Commit) []segno.CommitID {
	ids := []segno.CommitID{c.Parent}
	if c.Move != nil {
		ids = append(ids, c.Move.Head, c.Move.Tip)
	}
	if c.Pin != nil {
		ids = append(ids, c.Pin.Checkpoint)
	}
	return ids
}

// try commits c if the thread did not change under it.
func (s *Store) try(ctx context.Context, op string, c *segno.Commit, digest segno.Hash) (segno.Head, error) {
	t, err := s.threadFor(op, c)
	if err != nil {
		return segno.Head{}, err
	}
	f, release, err := s.hold(ctx, op, t)
	if err != nil {
		return segno.Head{}, err
	}
	defer release()
	if done := s.known(c.ID); done != nil {
		return s.again(op, done, c, digest)
	}
	switch {
	case t.hidden, t.n == 0 && c.Create == nil:
		return segno.Head{}, notFound(op, string(c.Thread))
	case t.n > 0 && c.Create != nil:
		return segno.Head{}, conflict(op, t)
	}
	if err := s.admit(op, t, c); err != nil {
		return segno.Head{}, err
	}
	line, err := encode(s.recordOf(t, c, digest), c.Entries)
	if err != nil {
		return segno.Head{}, invalid(op, string(c.ID), "it does not encode: %w", err)
	}
	// From here on nothing is cancelled.
	if err := s.adopt(op, c.Staged); err != nil {
		return segno.Head{}, err
	}
	if f == nil {
		err = s.create(op, t, line)
	} else {
		err = s.append(op, t, f, line)
	}
	return t.head, err
}

// threadFor returns the commit's thread. One that does not exist is only kept in
// mind for the commit that makes it.
func (s *Store) threadFor(op string, c *segno.Commit) (*thread, error) {
	if c.Create == nil {
		if ok, err := s.exists(op, c.Thread); err != nil {
			return nil, err
		} else if !ok {
			return nil, notFound(op, string(c.Thread))
		}
	}
	return s.thread(c.Thread), nil
}

// again answers a commit whose id is taken.
func (s *Store) again(op string, done *commit, c *segno.Commit, digest segno.Hash) (segno.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case done.log.hidden:
		return segno.Head{}, notFound(op, string(c.Thread))
	case done.digest != digest:
		return segno.Head{}, segno.Errorf(segno.KindConflict, op, string(c.ID), "another commit has that id")
	}
	return done.result, nil
}

func conflict(op string, t *thread) error {
	return segno.NewError(segno.KindConflict, op, string(t.id), &segno.ConflictError{Actual: clone(t.head, same)})
}

// admit says whether c may be applied. Fencing comes before the comparison of
// heads: a writer whose lease has passed on must not learn where to go on.
func (s *Store) admit(op string, t *thread, c *segno.Commit) error {
	if c.Epoch < t.head.Epoch {
		return segno.NewError(segno.KindFenced, op, string(c.Thread), nil)
	}
	if c.Expect != t.head.Head {
		return conflict(op, t)
	}
	at := []segno.CommitID{c.Parent}
	if c.Move != nil {
		at = append(at, c.Move.Head, c.Move.Tip)
	}
	for _, id := range at {
		if id == "" || id == segno.Self {
			continue
		}
		if is, err := s.isNode(op, t, s.known(id)); err != nil || !is {
			return cmp.Or(err, notFound("find commit", string(id)))
		}
	}
	if c.Pin != nil {
		x := s.known(c.Pin.Checkpoint)
		if is, err := s.isNode(op, t, x); err != nil || !is || x.Checkpoint == nil {
			return cmp.Or(err, notFound("pin", string(c.Pin.Checkpoint)))
		}
	}
	if c.Operation != nil && s.operated(c.Operation.ID) {
		return segno.Errorf(segno.KindConflict, op, string(c.Operation.ID), "another operation has that id")
	}
	return s.admitObjects(op, c)
}

// isNode reports whether x still has its place in the tree. A commit of another thread is
// read again: another process may have erased that thread since this one read it.
func (s *Store) isNode(op string, t *thread, x *commit) (bool, error) {
	if x == nil || !x.node || x.log == t {
		return x != nil && x.node, nil
	}
	f, err := os.Open(x.log.path())
	if err != nil {
		return false, fail(op, x.log.path(), err)
	}
	defer f.Close()
	line := make([]byte, x.end-x.at-1)
	if _, err := f.ReadAt(line, x.at); err != nil {
		return false, fail(op, x.log.path(), err)
	}
	r, err := decode(line)
	if err != nil || r.Commit == nil {
		return false, corrupt(op, string(x.ID), cmp.Or(err, errors.New("its record is gone")))
	}
	return r.Commit.Checkpoint != nil || r.Commit.Entries > 0, nil
}

// recordOf is what the log will say of c.
func (s *Store) recordOf(t *thread, c *segno.Commit, digest segno.Hash) record {
	r := s.stamp(t, record{Digest: digest, Commit: &commitRecord{ID: c.ID, Thread: c.Thread, Create: c.Create, Parent: c.Parent,
		Entries: len(c.Entries), Needs: c.Needs, Move: c.Move, Link: c.Link, Workspace: c.Workspace, Operation: c.Operation, Pin: c.Pin}})
	head := headRecord{Head: t.head.Head, Tip: t.head.Tip, Seq: t.head.Seq + 1, Turn: t.head.Turn, Epoch: t.head.Epoch,
		Phase: segno.NextPhase(t.phase, c)}
	if p := s.known(c.Parent); p != nil {
		r.Turn = p.turn
	}
	if c.Create != nil {
		head.Turn = r.Turn
	}
	if c.Checkpoint != nil {
		r.Commit.Checkpoint = &checkpointRecord{Checkpoint: *c.Checkpoint}
		r.Turn = c.Checkpoint.Turn
		head.Turn = max(head.Turn, r.Turn)
	}
	switch {
	case c.Move != nil:
		head.Head, head.Tip = itself(c.Move.Head, c.ID), itself(c.Move.Tip, c.ID)
	case c.IsNode():
		head.Head, head.Tip = c.ID, c.ID
	}
	r.Head = &head
	return r
}

func itself(id, self segno.CommitID) segno.CommitID {
	if id == segno.Self {
		return self
	}
	return id
}

// stamp gives a record its place in its log and among all.
func (s *Store) stamp(t *thread, r record) record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = max(s.order+1, s.clock().UnixNano())
	r.N, r.Order = t.n, s.order
	if r.N == 0 {
		r.Format = version
	}
	return r
}
