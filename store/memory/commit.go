package memory

import (
	"context"
	"encoding/json"

	"github.com/dalsegno/segno"
)

// Commit implements [segno.Store]. All that can go wrong is asked first; what
// follows cannot fail.
func (s *Store) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	const op = "commit"
	if err := c.Check(); err != nil {
		return segno.Head{}, err
	}
	digest, err := digestNow(&c)
	if err != nil {
		return segno.Head{}, err
	}
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Head{}, err
	}
	defer end()
	if done := s.commits[c.ID]; done != nil {
		if s.threads[done.Thread].hidden {
			return segno.Head{}, notFound(op, string(c.Thread))
		}
		same, err := done.is(&c)
		if err == nil && !same {
			err = segno.Errorf(segno.KindConflict, op, string(c.ID), "another commit has that id")
		}
		if err != nil {
			return segno.Head{}, err
		}
		return done.result, nil
	}
	t, err := s.threadFor(&c)
	if err != nil {
		return segno.Head{}, err
	}
	if err := s.admit(t, &c); err != nil {
		return segno.Head{}, err
	}
	if err := s.keep(c.Staged); err != nil {
		return segno.Head{}, err
	}
	defer s.notifier.Notify(c.Thread)
	return s.apply(t, &c, digest), nil
}

// digestNow is a commit's digest if it holds more than the tree will have, else the
// zero hash: the digest of a plain step is worked out should its id come again, since
// that costs more than all the rest.
func digestNow(c *segno.Commit) (segno.Hash, error) {
	if c.Create != nil || c.Move != nil || c.Link != nil || c.Workspace != nil || c.Operation != nil || c.Pin != nil || c.Needs != nil {
		return c.Digest()
	}
	for _, e := range c.Entries {
		if e.Body != nil && !json.Valid(e.Body) {
			return segno.Hash{}, segno.Errorf(segno.KindInvalid, "commit", string(c.ID), "an entry's body is not JSON")
		}
	}
	return segno.Hash{}, nil
}

// is reports whether c is the commit that x was made by.
func (x *commit) is(c *segno.Commit) (bool, error) {
	digest, err := c.Digest()
	if err == nil {
		err = x.remember()
	}
	return digest == x.digest, err
}

// remember works out the digest of a commit that has none yet.
func (x *commit) remember() (err error) {
	if x.digest.IsZero() {
		made := segno.Commit{ID: x.ID, Thread: x.Thread, Parent: x.Parent, Entries: x.Entries, Checkpoint: x.Checkpoint}
		x.digest, err = made.Digest()
	}
	return err
}

// threadFor returns the commit's thread; a new one is not in the store yet.
func (s *Store) threadFor(c *segno.Commit) (*thread, error) {
	t := s.threads[c.Thread]
	switch {
	case t != nil && t.hidden, t == nil && c.Create == nil:
		return nil, notFound("commit", string(c.Thread))
	case t != nil && c.Create != nil:
		return nil, segno.NewError(segno.KindConflict, "commit", string(c.Thread), &segno.ConflictError{Actual: t.head})
	case t == nil:
		t = &thread{Thread: *c.Create, head: segno.Head{Thread: c.Thread}}
	}
	return t, nil
}

// admit says whether c may be applied. Fencing comes before the comparison of
// heads: a writer whose lease has passed on must not learn where to go on.
func (s *Store) admit(t *thread, c *segno.Commit) error {
	const op = "commit"
	if c.Epoch < t.head.Epoch {
		return segno.NewError(segno.KindFenced, op, string(c.Thread), nil)
	}
	if c.Expect != t.head.Head {
		return segno.NewError(segno.KindConflict, op, string(c.Thread), &segno.ConflictError{Actual: t.head})
	}
	at := []segno.CommitID{c.Parent}
	if c.Move != nil {
		at = append(at, c.Move.Head, c.Move.Tip)
	}
	for _, id := range at {
		if x := s.commits[id]; id != "" && id != segno.Self && (x == nil || !x.node) {
			return notFound("find commit", string(id))
		}
	}
	staged := map[segno.Hash]bool{}
	for _, o := range c.Staged.Objects {
		staged[o.Name] = o.Data != nil
	}
	for _, h := range c.Refs() {
		if _, ok := s.objects[h]; !ok && !staged[h] {
			return segno.Errorf(segno.KindNotFound, op, string(c.ID), "object %s does not exist", h)
		}
	}
	if c.Pin != nil {
		if x := s.commits[c.Pin.Checkpoint]; x == nil || x.Checkpoint == nil {
			return notFound("pin", string(c.Pin.Checkpoint))
		}
	}
	if c.Operation != nil {
		for i := range s.log {
			if s.log[i].ID == c.Operation.ID {
				return segno.Errorf(segno.KindConflict, op, string(c.Operation.ID), "another operation has that id")
			}
		}
	}
	return nil
}

func (s *Store) apply(t *thread, c *segno.Commit, digest segno.Hash) segno.Head {
	x := &commit{digest: digest, node: c.IsNode()}
	if p := s.commits[c.Parent]; p != nil {
		x.turn = p.turn
	}
	if c.Create != nil {
		s.threads[c.Thread] = t
		t.head.Turn = x.turn
	}
	s.setPhase(t, segno.NextPhase(t.phase, c))
	t.head.Seq++
	x.Node = segno.Node{ID: c.ID, Thread: c.Thread, Parent: c.Parent, Seq: t.head.Seq, Entries: copyEntries(c.Entries)}
	if c.Checkpoint != nil {
		x.Checkpoint = copyCheckpoint(c.Checkpoint)
		x.Checkpoint.ID, x.Checkpoint.Thread, x.Checkpoint.Parent, x.Checkpoint.Seq = c.ID, c.Thread, c.Parent, x.Seq
		x.turn = c.Checkpoint.Turn
		t.head.Turn = max(t.head.Turn, x.turn)
	}
	move := segno.Move{Head: t.head.Head, Tip: t.head.Tip}
	switch {
	case c.Move != nil:
		move = *c.Move
	case x.node:
		move = segno.Move{Head: segno.Self, Tip: segno.Self}
	}
	t.head.Head, t.head.Tip = itself(move.Head, c.ID), itself(move.Tip, c.ID)
	t.chain(c.Link)
	t.changed = len(s.order)
	x.result = t.head
	s.commits[c.ID] = x
	s.order = append(s.order, x)
	s.applySides(c)
	return x.result
}

func itself(id, self segno.CommitID) segno.CommitID {
	if id == segno.Self {
		return self
	}
	return id
}

// applySides keeps what a commit says beside the tree.
func (s *Store) applySides(c *segno.Commit) {
	if c.Pin != nil {
		if c.Pin.Name == "" {
			delete(s.pins, c.Pin.Checkpoint)
		} else {
			s.pins[c.Pin.Checkpoint] = c.Pin.Name
		}
	}
	if c.Workspace != nil {
		w := s.workspaces[c.Workspace.Workspace]
		if w == nil {
			w = new(workspace)
			s.workspaces[c.Workspace.Workspace] = w
		}
		w.record.State = copyState(*c.Workspace)
	}
	if c.Operation != nil {
		s.log = append(s.log, copyOperation(*c.Operation))
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
