package timeline

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// The reasons why a path of a turn may not be its own.
const (
	whyDoubt      = "may also have been changed outside the turn since it began, for example by a concurrent turn"
	whyDoubtAlone = "may also have been changed outside the turn since it began"
	whyDoubtEnd   = "may also have been changed outside the turn since it began, for example after it was interrupted"
)

// contestedPaths returns a function that returns the reason why a path that changed in a turn may have
// changes of another author, or "". changes are the turn's, and entries its entries.
func (o *overlaps) contestedPaths(ctx context.Context, turn *segno.Checkpoint, entries []segno.Entry, changes []segno.Change) (func(path string) string, error) {
	doubt := listedPaths(entries, segno.EntryDoubt)
	overlapped := func(string) string { return "" }
	if turn.Shared {
		var err error
		if overlapped, err = o.overlapped(ctx, turn, changes); err != nil {
			return nil, err
		}
	}
	nested, err := o.changedInNested(ctx, turn, changes)
	if err != nil {
		return nil, err
	}
	inDoubt := whyDoubt
	switch {
	case turn.Shared:
	case turn.Interrupted:
		inDoubt = whyDoubtEnd
	default:
		inDoubt = whyDoubtAlone
	}
	return func(path string) string {
		switch {
		case nested[path]:
			return whyDoubt
		case doubt[path]:
			return inDoubt
		}
		return overlapped(path)
	}, nil
}

// overlapped returns a function that returns the reason why a path that changed during a shared turn may
// not be reverted with it, or "".
func (o *overlaps) overlapped(ctx context.Context, turn *segno.Checkpoint, changes []segno.Change) (func(path string) string, error) {
	own, err := o.spanOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	rivals, err := o.overlappingTurns(ctx, turn, own)
	if err != nil {
		return nil, err
	}
	left := entities(changes)
	return func(path string) string { return own.WhyContested(rivals, path, left[path].Hash) }, nil
}

// overlaps finds the turns that overlapped with the turns of one plan. It keeps what it needs of each turn of the workspace, so that
// an undo of many turns reads each of them a few times. It keeps no calls, which are large.
type overlaps struct {
	*txn
	ended  []segno.Checkpoint           // the turns of the workspace; nil if they were not read
	times  map[segno.CommitID]*timeSpan // without calls
	nested []nestedWorkspace            // nil if they were not read
}

// timeSpan is the work of a turn, with the files before and after it.
type timeSpan struct {
	ownership.Work
	before, after segno.Hash
}

// newSpan returns the span of a turn with these entries, in a session in dir and a workspace at root. end is the end of calls
// without a result, or zero if unknown.
func (tx *txn) newSpan(entries []segno.Entry, dir, root string, end time.Time) *timeSpan {
	var t OpenTurn
	s := &timeSpan{}
	s.Doubt, s.Others = listedPaths(entries, segno.EntryDoubt), listedPaths(entries, segno.EntryOthers)
	s.Calls, s.Root = tx.calls(entries, dir, end, t.allTaskEnds(entries, time.Time{})), root
	return s
}

// dirOf returns the directory of a turn's session, or "".
func dirOf(turn *segno.Checkpoint) string {
	if turn.Session == nil {
		return ""
	}
	return turn.Session.Dir
}

// rootOf returns the root of the workspace in which a turn ran, where the calls of its tools named files. A
// fork or a thread of another machine has turns of other directories.
func (tx *txn) rootOf(turn *segno.Checkpoint) string {
	if turn.Workspace == nil || turn.Workspace.Root == "" {
		return tx.Workspace.Root()
	}
	return turn.Workspace.Root
}

// isKnown reports whether the span has all data for a comparison of files.
func (s *timeSpan) isKnown() bool {
	return s.From.Before(s.To) && !s.before.IsZero() && !s.after.IsZero()
}

// spanOf returns a turn's span, which begins at the time of its first entry.
func (o *overlaps) spanOf(ctx context.Context, turn *segno.Checkpoint) (*timeSpan, error) {
	entries, err := turnEntries(ctx, o.Store, turn)
	if err != nil {
		return nil, err
	}
	t, err := o.timesOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	s := o.newSpan(entries, dirOf(turn), o.rootOf(turn), turn.Time)
	s.From, s.To, s.before, s.after = t.From, t.To, t.before, t.after
	return s, nil
}

// timesOf returns a turn's span without its calls.
func (o *overlaps) timesOf(ctx context.Context, turn *segno.Checkpoint) (*timeSpan, error) {
	if t := o.times[turn.ID]; t != nil {
		return t, nil
	}
	entries, err := turnEntries(ctx, o.Store, turn)
	if err != nil {
		return nil, err
	}
	t := &timeSpan{after: turn.Tree()}
	t.From, t.To = turn.Time, turn.Time
	for _, e := range entries {
		if !e.Time.IsZero() && e.Time.Before(t.From) {
			t.From = e.Time
		}
	}
	if t.before, err = o.treeBefore(ctx, turn); err != nil {
		return nil, err
	}
	if o.times == nil {
		o.times = map[segno.CommitID]*timeSpan{}
	}
	o.times[turn.ID] = t
	return t, nil
}

// treeBefore returns the tree from which a turn began, or zero if it is not known.
func (tx *txn) treeBefore(ctx context.Context, turn *segno.Checkpoint) (segno.Hash, error) {
	var below []*segno.Checkpoint
	for n, err := range segno.Ancestors(ctx, tx.Store, turn.ID, segno.Window{Last: 16}) {
		if err != nil {
			return segno.Hash{}, err
		}
		c := n.Checkpoint
		if c == nil || c.ID == turn.ID {
			continue
		}
		below = append(below, c)
		if c.Turn == turn.Turn && (c.Kind == segno.CheckpointStep || c.Kind == segno.CheckpointExternal) {
			continue // it may be a part of the turn
		}
		if s := newestState(below[countParts(turn, below):]); s != nil {
			return s.Tree, nil
		}
	}
	return newestTree(below[countParts(turn, below):]), nil
}

// turnIdentity is the thread in which a turn is recorded and the agent's session it ran in.
type turnIdentity struct {
	thread  segno.ThreadID
	session segno.SessionID
}

func identityOf(c *segno.Checkpoint) turnIdentity {
	if c.Session == nil {
		return turnIdentity{thread: c.Thread}
	}
	return turnIdentity{c.Thread, c.Session.Session}
}

func (t *OpenTurn) identity() turnIdentity { return turnIdentity{t.Thread, t.Source.Session} }

// sameAs reports whether overlapping turns are one turn that was recorded twice: segno's own agent keeps a
// session as the thread with the session's id, and segno acp, which runs the agent, records the session's
// turns in another thread.
func (a turnIdentity) sameAs(b turnIdentity) bool {
	return a.thread == segno.ThreadID(b.session) && a.thread != "" || b.thread == segno.ThreadID(a.session) && b.thread != ""
}

// overlappingTurns returns the turns of other threads that overlapped in the workspace with
// turn. own is the span of turn.
func (o *overlaps) overlappingTurns(ctx context.Context, turn *segno.Checkpoint, own *timeSpan) (rivals []*ownership.Work, err error) {
	open, err := o.openOverlappingTurns(ctx, turn, own)
	if err != nil {
		return nil, err
	}
	if o.ended == nil {
		if o.ended, err = o.endedTurns(ctx, o.Workspace.ID()); err != nil {
			return nil, err
		}
	}
	var spans []*timeSpan
	for i := range o.ended {
		c := &o.ended[i]
		if c.Thread == turn.Thread || c.Time.Before(own.From) || identityOf(turn).sameAs(identityOf(c)) || !mayOverlap(c, turn) {
			continue
		}
		if t, err := o.timesOf(ctx, c); err != nil {
			return nil, err
		} else if t.isKnown() && t.From.After(own.To) {
			continue
		}
		s, err := o.spanOf(ctx, c)
		if err != nil {
			return nil, err
		}
		s.Again, s.Amended = c.Amends != "", !c.Shared
		spans = append(spans, s)
	}
	for _, s := range append(spans, open...) {
		if s.Changed, err = o.changedInBoth(ctx, own, s); err != nil {
			return nil, err
		}
		rivals = append(rivals, &s.Work)
	}
	return rivals, nil
}

// endedTurns returns the turns of a workspace that have ended.
func (tx *txn) endedTurns(ctx context.Context, id segno.WorkspaceID) ([]segno.Checkpoint, error) {
	all := []segno.Checkpoint{}
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: id}) {
		if err != nil {
			return nil, err
		}
		if endsTurn(&c) {
			all = append(all, c)
		}
	}
	return all, nil
}

// mayOverlap reports whether a turn may have overlapped with turn, which is shared. An amended turn continued after it had ended, and a
// turn of a Go agent may continue after its process was dead: the turns of others in between need not be marked as shared.
func mayOverlap(c, turn *segno.Checkpoint) bool {
	return c.Shared || c.Amends != "" || turn.Session == nil
}

// openOverlappingTurns is overlappingTurns for turns that are still open.
func (tx *txn) openOverlappingTurns(ctx context.Context, turn *segno.Checkpoint, own *timeSpan) (open []*timeSpan, err error) {
	for _, t := range tx.turns {
		if t.Workspace != tx.Workspace.ID() || t.Thread == turn.Thread || t.Before == nil || t.Start.After(own.To) || identityOf(turn).sameAs(t.identity()) {
			continue
		}
		entries, _, err := tx.Spool.Entries(ctx, t.Key)
		if err != nil {
			return nil, err
		}
		s := tx.newSpan(entries, t.Source.Dir, tx.Workspace.Root(), time.Time{})
		s.From, s.To, s.before, s.after = t.Start, tx.Now(), t.Before.Tree, own.after
		open = append(open, s)
	}
	return open, nil
}

// changedInBoth returns the paths that changed while two turns overlapped: from the later
// beginning to the earlier end.
func (tx *txn) changedInBoth(ctx context.Context, a, b *timeSpan) (map[string]bool, error) {
	if !a.isKnown() || !b.isKnown() {
		return nil, nil
	}
	from, to := a.before, a.after
	if b.From.After(a.From) {
		from = b.before
	}
	if b.To.Before(a.To) {
		to = b.after
	}
	changes, err := tx.diff(ctx, from, to)
	if err != nil {
		return nil, err
	}
	changed := make(map[string]bool, len(changes))
	for _, c := range changes {
		changed[c.Path] = true
	}
	return changed, nil
}

// overlapsAnother reports whether a turn of another thread overlapped in the workspace with a turn of thread.
func (tx *txn) overlapsAnother(ctx context.Context, turn *OpenTurn, thread segno.ThreadID) (bool, error) {
	own := turnIdentity{thread, turn.Source.Session}
	for _, t := range tx.turns {
		same := t.Source.Session == own.session && own.session != ""
		if t.Workspace != turn.Workspace || t.Key == turn.Key || same || own.sameAs(t.identity()) {
			continue
		}
		if slices.Contains(turn.Left, t.Key) && tx.isGone(t) {
			continue
		}
		if works, err := tx.isWorking(ctx, t); works || err != nil {
			return works, err
		}
	}
	if turn.Start.IsZero() {
		return false, nil
	}
	return tx.endedSince(ctx, turn, own)
}

// endedSince reports whether a turn of another thread in the workspace ended after turn began.
func (tx *txn) endedSince(ctx context.Context, turn *OpenTurn, own turnIdentity) (bool, error) {
	const most = 16 // the number of older checkpoints to examine: a deferred commit is older than its neighbours
	older := 0
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: turn.Workspace}) {
		if err != nil {
			return false, err
		}
		if c.Time.After(turn.Start) {
			if endsTurn(&c) && c.Thread != own.thread && !own.sameAs(identityOf(&c)) {
				return true, nil
			}
		} else if older++; older == most {
			break
		}
	}
	return false, nil
}
