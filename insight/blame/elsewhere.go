package blame

import (
	"context"
	"iter"

	"github.com/dalsegno/segno"
)

// maxCompared is how many states of a file are compared line by line with the result of a move.
const maxCompared = 64

// elsewhere looks for lines that a checkpoint did not write although the state before it does not have them: a move took
// them from another state, or another thread of the workspace wrote them. It returns the other lines. With own, the states of
// the same thread count, too.
//
// The newest earlier state with the same content has all lines. If there is none, a move merged states, and took each line
// from one of them: elsewhere compares the newest ones.
func (w *walk) elsewhere(ctx context.Context, it *item, refs []ref, own bool) ([]ref, error) {
	if it.jumps == maxJumps {
		return refs, nil
	}
	var others []*segno.Checkpoint
	seen := map[segno.Hash]bool{}
	for c, err := range w.earlier(ctx, it.Checkpoint, own) {
		if err != nil {
			return nil, err
		}
		e, err := w.entity(ctx, c.Tree(), it.Path)
		if err != nil {
			return nil, err
		}
		switch {
		case !e.HasContent() || seen[e.Hash]:
		case e.Hash == it.Hash:
			return w.passOn(ctx, it, refs, c)
		case len(others) < maxCompared:
			others = append(others, c)
		}
		seen[e.Hash] = true
	}
	for _, c := range others {
		var err error
		if refs, err = w.passOn(ctx, it, refs, c); err != nil || len(refs) == 0 {
			return nil, err
		}
	}
	return refs, nil
}

// passOn lets lines that a state on another line of checkpoints has go on there, and returns the rest.
func (w *walk) passOn(ctx context.Context, it *item, refs []ref, to *segno.Checkpoint) (rest []ref, err error) {
	e, err := w.entity(ctx, to.Tree(), it.Path)
	if err != nil {
		return nil, err
	}
	old, rest, err := w.compare(ctx, e, it.Hash, refs)
	w.add(State{to, it.Path, e.Hash}, old, it.jumps+1)
	return rest, err
}

// beside looks for lines of a change outside turns in the turns of other threads that ran at the same time. A thread records
// such a line as changed outside its turns. up is the state before the change.
func (w *walk) beside(ctx context.Context, it *item, refs []ref, up *segno.Checkpoint) ([]ref, error) {
	c, since := it.Checkpoint, up.Time
	all, err := w.sharedTurns(ctx, c.Workspace.Workspace)
	if err == nil && up.Shared {
		var begin *segno.Checkpoint
		if begin, _, err = w.before(ctx, up); begin != nil {
			since = begin.Time
		}
	}
	for i := 0; i < len(all) && len(refs) > 0 && err == nil && it.jumps < maxJumps; i++ {
		turn := &all[i]
		if turn.Thread == c.Thread || turn.Time.Before(since) {
			continue
		}
		var begin *segno.Checkpoint
		if begin, _, err = w.before(ctx, turn); err == nil && (begin == nil || begin.Time.Before(c.Time)) {
			refs, err = w.passOn(ctx, it, refs, turn)
		}
	}
	return refs, err
}

// sharedTurns returns the turns of a workspace that overlapped with turns of other threads, the newest first.
func (w *walk) sharedTurns(ctx context.Context, id segno.WorkspaceID) (all []segno.Checkpoint, err error) {
	if known, ok := w.shared[id]; ok {
		return known, nil
	}
	threads := 0
	for _, err := range w.Store.Threads(ctx, segno.ThreadQuery{Workspace: id, Limit: 2}) {
		if err != nil {
			return nil, err
		}
		threads++
	}
	if threads > 1 {
		amended := map[segno.CommitID]bool{}
		for c, err := range w.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: id}) {
			if err != nil {
				return nil, err
			}
			if amended[c.Amends] = true; c.Shared && isTurn(&c) && !amended[c.ID] && !c.Tree().IsZero() {
				all = append(all, c)
			}
		}
	}
	w.shared[id] = all
	return all, nil
}

// earlier yields the checkpoints with files that are earlier than c: with own those of its thread and of the threads from
// which that was forked, the newest first, and then those of the other threads of the workspace. It ends after an error.
func (w *walk) earlier(ctx context.Context, c *segno.Checkpoint, own bool) iter.Seq2[*segno.Checkpoint, error] {
	return func(yield func(*segno.Checkpoint, error) bool) {
		if own && !(w.listed(ctx, c, segno.CheckpointQuery{Thread: c.Thread, Before: c.Seq}, yield) && w.forked(ctx, c, yield)) {
			return
		}
		for t, err := range w.Store.Threads(ctx, segno.ThreadQuery{Workspace: c.Workspace.Workspace}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if t.ID != c.Thread && !t.Created.After(c.Time) && !w.listed(ctx, c, segno.CheckpointQuery{Thread: t.ID}, yield) {
				return
			}
		}
	}
}

// listed yields the checkpoints of a query with files that are not later than c. It returns false if the caller ends the loop,
// or after an error.
func (w *walk) listed(ctx context.Context, c *segno.Checkpoint, q segno.CheckpointQuery, yield func(*segno.Checkpoint, error) bool) bool {
	amended := map[segno.CommitID]bool{} // a later end of the same turn replaces them
	for x, err := range w.Store.Checkpoints(ctx, q) {
		if err != nil {
			yield(nil, err)
			return false
		}
		amended[x.Amends] = true
		isEarlier := q.Before > 0 || !x.Time.After(c.Time)
		if isEarlier && !amended[x.ID] && !x.Tree().IsZero() && !yield(&x, nil) {
			return false
		}
	}
	return true
}

// forked is listed for the ancestors of c in other threads.
func (w *walk) forked(ctx context.Context, c *segno.Checkpoint, yield func(*segno.Checkpoint, error) bool) bool {
	for up := c; ; {
		var err error
		if up, _, err = w.before(ctx, up); err != nil {
			yield(nil, err)
			return false
		}
		if up == nil {
			return true
		}
		if up.Thread != c.Thread && !yield(up, nil) {
			return false
		}
	}
}

// first sets the origins of lines of the first checkpoint with files of a line. If other threads worked in the directory
// before, their states have the lines, or the lines were written between the threads. isGap is set if there were earlier
// checkpoints.
func (w *walk) first(ctx context.Context, it *item, isGap bool) error {
	by := Before
	if isGap || isTurn(it.Checkpoint) {
		by = Unknown // the files before are not recorded
	}
	for _, err := range w.earlier(ctx, it.Checkpoint, false) {
		if err != nil {
			return err
		}
		if by == Before {
			by = External
		}
		break
	}
	rest, err := w.elsewhere(ctx, it, it.refs, false)
	if err == nil {
		w.set(rest, w.origin(it, by))
	}
	return err
}
