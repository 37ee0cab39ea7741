package timeline

import (
	"context"
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
func (tx *txn) contestedPaths(ctx context.Context, turn *segno.Checkpoint, entries []segno.Entry, changes []segno.Change) (func(path string) string, error) {
	doubt := listedPaths(entries, segno.EntryDoubt)
	overlapped := func(string) string { return "" }
	if turn.Shared {
		var err error
		if overlapped, err = tx.overlapped(ctx, turn, changes); err != nil {
			return nil, err
		}
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
		if doubt[path] {
			return inDoubt
		}
		return overlapped(path)
	}, nil
}

// overlapped returns a function that returns the reason why a path that changed during a shared turn may
// not be reverted with it, or "".
func (tx *txn) overlapped(ctx context.Context, turn *segno.Checkpoint, changes []segno.Change) (func(path string) string, error) {
	own, err := tx.spanOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	rivals, err := tx.overlappingTurns(ctx, turn, own)
	if err != nil {
		return nil, err
	}
	left := entities(changes)
	return func(path string) string { return own.WhyContested(rivals, path, left[path].Hash) }, nil
}

// timeSpan is the work of a turn, with the files before and after it.
type timeSpan struct {
	ownership.Work
	before, after segno.Hash
}

// newSpan returns the span of a turn with these entries, in a session in dir. end is the end of calls
// without a result, or zero if unknown.
func (tx *txn) newSpan(entries []segno.Entry, dir string, end time.Time) *timeSpan {
	var t OpenTurn
	s := &timeSpan{}
	s.Doubt, s.Others = listedPaths(entries, segno.EntryDoubt), listedPaths(entries, segno.EntryOthers)
	s.Calls, s.Root = tx.calls(entries, dir, end, t.allTaskEnds(entries, time.Time{})), tx.Workspace.Root()
	return s
}

// dirOf returns the directory of a turn's session, or "".
func dirOf(turn *segno.Checkpoint) string {
	if turn.Session == nil {
		return ""
	}
	return turn.Session.Dir
}

// isKnown reports whether the span has all data for a comparison of files.
func (s *timeSpan) isKnown() bool {
	return s.From.Before(s.To) && !s.before.IsZero() && !s.after.IsZero()
}

// spanOf returns a turn's span, which begins at the time of its first entry.
func (tx *txn) spanOf(ctx context.Context, turn *segno.Checkpoint) (*timeSpan, error) {
	entries, err := turnEntries(ctx, tx.Store, turn)
	if err != nil {
		return nil, err
	}
	line, err := tx.line(ctx, turn.ID)
	if err != nil {
		return nil, err
	}
	s := tx.newSpan(entries, dirOf(turn), turn.Time)
	s.From, s.To = turn.Time, turn.Time
	s.before, s.after = newestTree(line[1+countParts(turn, line[1:]):]), turn.Tree()
	for _, e := range entries {
		if !e.Time.IsZero() && e.Time.Before(s.From) {
			s.From = e.Time
		}
	}
	return s, nil
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
func (tx *txn) overlappingTurns(ctx context.Context, turn *segno.Checkpoint, own *timeSpan) (rivals []*ownership.Work, err error) {
	open, err := tx.openOverlappingTurns(ctx, turn, own)
	if err != nil {
		return nil, err
	}
	var spans []*timeSpan
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: tx.Workspace.ID()}) {
		if err != nil {
			return nil, err
		}
		// An amended turn continued after it had ended, so it need not be marked as shared.
		if c.Thread == turn.Thread || !c.Shared && c.Amends == "" || !endsTurn(&c) || c.Time.Before(own.From) || identityOf(turn).sameAs(identityOf(&c)) {
			continue
		}
		s, err := tx.spanOf(ctx, &c)
		if err != nil {
			return nil, err
		}
		s.Again = c.Amends != ""
		if s.Amended = !c.Shared; !s.isKnown() || !s.From.After(own.To) {
			spans = append(spans, s)
		}
	}
	for _, s := range append(spans, open...) {
		if s.Changed, err = tx.changedInBoth(ctx, own, s); err != nil {
			return nil, err
		}
		rivals = append(rivals, &s.Work)
	}
	return rivals, nil
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
		s := tx.newSpan(entries, t.Source.Dir, time.Time{})
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
			if c.Kind == segno.CheckpointTurn && c.Thread != own.thread && !own.sameAs(identityOf(&c)) {
				return true, nil
			}
		} else if older++; older == most {
			break
		}
	}
	return false, nil
}
