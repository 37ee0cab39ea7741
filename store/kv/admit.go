package kv

import (
	"context"

	"github.com/dalsegno/segno"
)

// standpoint is what a commit stands on, outside its thread's state.
type standpoint struct {
	line lineage // the parent's
	turn int     // the parent's

	headLine lineage // of the node a Move sets the head to
	headTurn int
}

// threadFor returns the state a commit begins from; st is nil if there is no such
// thread yet.
func (w *written) threadFor(st *state) (*state, error) {
	switch {
	case st != nil && st.hidden, st == nil && w.Create == nil:
		return nil, segno.NewError(segno.KindNotFound, "commit", string(w.Thread), nil)
	case st != nil && w.Create != nil:
		return nil, late(w, st)
	case st == nil:
		st = &state{Head: segno.Head{Thread: w.Thread}}
	}
	return st, nil
}

// late is the error for a writer that was too late.
func late(w *written, st *state) error {
	return segno.NewError(segno.KindConflict, "commit", string(w.Thread), &segno.ConflictError{Actual: st.clone().Head})
}

// plain reports whether all a commit stands on is in st, which may be outdated:
// it says nothing of what is wrong.
func (w *written) plain(st *state) (standpoint, bool) {
	ok := w.Create == nil && !st.hidden && w.Epoch >= st.Epoch && w.Expect == st.Head.Head && w.Move == nil && w.Pin == nil
	switch {
	case !ok, w.Parent != st.Head.Head, st.line.runs == nil:
		return standpoint{}, false
	}
	return standpoint{line: st.line, turn: st.turn, headLine: st.line, headTurn: st.turn}, true
}

// admit says whether a commit may be made on st, which is as the KV has it.
// Fencing comes before the comparison of heads: a writer whose lease has passed on
// must not learn where to go on.
func (s *Store) admit(ctx context.Context, st *state, w *written) (from standpoint, err error) {
	if w.Epoch < st.Epoch {
		return from, segno.NewError(segno.KindFenced, "commit", string(w.Thread), nil)
	}
	if w.Expect != st.Head.Head {
		return from, late(w, st)
	}
	from.headLine, from.headTurn = st.line, st.turn
	if w.Parent != "" {
		parent, err := s.node(ctx, w.Parent)
		if err != nil {
			return from, err
		}
		from.line, from.turn = parent.line, parent.turn
	}
	if w.Move != nil {
		if err := s.admitMove(ctx, w.Move, &from); err != nil {
			return from, err
		}
	}
	if w.Pin != nil {
		e, err := s.find(ctx, w.Pin.Checkpoint)
		if err != nil {
			return from, err
		}
		if e == nil || e.checkpoint == nil {
			return from, segno.NewError(segno.KindNotFound, "pin", string(w.Pin.Checkpoint), nil)
		}
	}
	return from, s.admitObjects(ctx, w)
}

func (s *Store) admitMove(ctx context.Context, m *segno.Move, from *standpoint) error {
	if m.Head != segno.Self {
		e, err := s.node(ctx, m.Head)
		if err != nil {
			return err
		}
		from.headLine, from.headTurn = e.line, e.turn
	}
	if m.Tip != segno.Self && m.Tip != m.Head {
		_, err := s.node(ctx, m.Tip)
		return err
	}
	return nil
}

// node finds a commit that has a place in the tree.
func (s *Store) node(ctx context.Context, id segno.CommitID) (*entry, error) {
	e, err := s.find(ctx, id)
	if err == nil && (e == nil || !e.node) {
		err = segno.NewError(segno.KindNotFound, "find commit", string(id), nil)
	}
	return e, err
}

// admitObjects wants all objects that a commit names to be there, or to come with
// it.
func (s *Store) admitObjects(ctx context.Context, w *written) error {
	comes := map[segno.Hash]bool{}
	var names []segno.Hash
	for _, x := range w.packed {
		comes[x.name] = true
	}
	for _, o := range w.Staged.Objects {
		if o.Data != nil {
			comes[o.Name] = true
		}
	}
	for _, h := range w.objects() {
		if !comes[h] {
			names = append(names, h)
		}
	}
	keys := make([]string, len(names))
	for i, h := range names {
		keys[i] = s.objectKey(h)
	}
	vals, err := s.getAll(ctx, keys)
	if err != nil {
		return err
	}
	for i, val := range vals {
		if val == nil {
			return segno.Errorf(segno.KindNotFound, "commit", string(w.ID), "object %s does not exist", names[i])
		}
	}
	return nil
}

// objects are all objects that a commit brings, found or names.
func (w *written) objects() []segno.Hash {
	seen := map[segno.Hash]bool{}
	var all []segno.Hash
	add := func(h segno.Hash) {
		if !seen[h] {
			seen[h] = true
			all = append(all, h)
		}
	}
	for _, o := range w.Staged.Objects {
		add(o.Name)
	}
	for _, x := range w.packed {
		add(x.name)
	}
	for _, h := range w.refs {
		add(h)
	}
	return all
}
