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
	whyDoubt      = "changed after the turn, or by a concurrent turn"
	whyDoubtAlone = "changed after the turn, or by a move or by background work while it ran"
	whyDoubtEnd   = "changed around the time at which the turn was interrupted, by it or after it"
	whyOnlyShared = "another thread was active, and this turn's tools did not name the path"
	whyNamedToo   = "tools of a concurrent turn of another thread name the path, too"
	whyRanToo     = "a concurrent turn of another thread ran a command, which may have changed the path, too"
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
// not be reverted with it, or "". Both turns contain the changes made while they overlapped, and no
// snapshot shows which turn made them. The path belongs to this turn only if its own tools name it and
// those of the other turn do not. A command of the other turn need not name its files. Its writes before
// those of this turn's tools are overwritten; its later writes are excluded only if the file still has the
// content that this turn's tools left. Changes made while the turn ran alone belong to it.
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
	return func(path string) string {
		alone := len(rivals) > 0
		for _, r := range rivals {
			names := r.Named(path)
			if r.amended { // its checkpoint lacks paths that newer ones changed, too
				names = r.NamedBetween(path, own.start, own.end)
			}
			// The checkpoint of a turn that continued after its end lacks the paths that newer checkpoints
			// changed, too.
			namesAgain := r.again && r.NamedBetween(path, own.start, own.end)
			if !r.mayHaveChanged(path) && !(r.amended && names) && !namesAgain {
				continue
			}
			if alone = false; names {
				return whyNamedToo
			}
			since, sure := own.Since(path, left[path].Hash)
			if own.Named(path) && r.overlaps(own, since, sure) {
				return whyRanToo
			}
		}
		if !alone && !own.Named(path) {
			return whyOnlyShared
		}
		return ""
	}, nil
}

// timeSpan is the time during which a turn worked, with the evidence for its changes.
type timeSpan struct {
	start, end    time.Time
	before, after segno.Hash // the files
	ownership.Evidence
	again   bool            // it continued after it had ended
	amended bool            // it continued after it had ended, and is not marked as shared
	doubt   map[string]bool // paths that it may have changed
	others  map[string]bool // paths that others changed last; its tools may have changed them before
	changed map[string]bool // for another turn: paths that changed while both were at work; nil if unknown
}

// newSpan returns the span of a turn with these entries, in a session in dir. end is the end of calls
// without a result, or zero if unknown.
func (tx *txn) newSpan(entries []segno.Entry, dir string, end time.Time) *timeSpan {
	var t OpenTurn
	s := &timeSpan{doubt: listedPaths(entries, segno.EntryDoubt), others: listedPaths(entries, segno.EntryOthers)}
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
	return s.start.Before(s.end) && !s.before.IsZero() && !s.after.IsZero()
}

// spanOf returns a turn's span, which begins at the time of its first entry.
func (tx *txn) spanOf(ctx context.Context, turn *segno.Checkpoint) (*timeSpan, error) {
	entries, err := tx.turnEntries(ctx, turn)
	if err != nil {
		return nil, err
	}
	line, err := tx.line(ctx, turn.ID)
	if err != nil {
		return nil, err
	}
	s := tx.newSpan(entries, dirOf(turn), turn.Time)
	s.start, s.end = turn.Time, turn.Time
	s.before, s.after = newestTree(line[1+countParts(turn, line[1:]):]), turn.Tree()
	for _, e := range entries {
		if !e.Time.IsZero() && e.Time.Before(s.start) {
			s.start = e.Time
		}
	}
	return s, nil
}

// overlaps reports whether the turn ran a command that may have changed any file while the turn own was at
// work. If sure is set, nothing changed the file after since, and commands that began later do not count.
func (r *timeSpan) overlaps(own *timeSpan, since time.Time, sure bool) bool {
	return slices.ContainsFunc(r.Calls, func(c ownership.Call) bool {
		return !c.Confined && (c.Lost || !c.To.Before(own.start)) && !(sure && !c.From.Before(since))
	})
}

// mayHaveChanged reports whether a turn may have changed a path while both were at work.
func (r *timeSpan) mayHaveChanged(path string) bool {
	return r.changed == nil || r.changed[path] || r.doubt[path] || r.others[path]
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
func (tx *txn) overlappingTurns(ctx context.Context, turn *segno.Checkpoint, own *timeSpan) (rivals []*timeSpan, err error) {
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Workspace: tx.Workspace.ID()}) {
		if err != nil {
			return nil, err
		}
		// An amended turn continued after it had ended, so it need not be marked as shared.
		if c.Thread == turn.Thread || !c.Shared && c.Amends == "" || !endsTurn(&c) || c.Time.Before(own.start) || identityOf(turn).sameAs(identityOf(&c)) {
			continue
		}
		s, err := tx.spanOf(ctx, &c)
		if err != nil {
			return nil, err
		}
		s.again = c.Amends != ""
		if s.amended = !c.Shared; !s.isKnown() || !s.start.After(own.end) {
			rivals = append(rivals, s)
		}
	}
	open, err := tx.openOverlappingTurns(ctx, turn, own)
	if err != nil {
		return nil, err
	}
	rivals = append(rivals, open...)
	for _, r := range rivals {
		if r.changed, err = tx.changedInBoth(ctx, own, r); err != nil {
			return nil, err
		}
	}
	return rivals, nil
}

// openOverlappingTurns is overlappingTurns for turns that are still open.
func (tx *txn) openOverlappingTurns(ctx context.Context, turn *segno.Checkpoint, own *timeSpan) (open []*timeSpan, err error) {
	for _, t := range tx.turns {
		if t.Workspace != tx.Workspace.ID() || t.Thread == turn.Thread || t.Before == nil || t.Start.After(own.end) || identityOf(turn).sameAs(t.identity()) {
			continue
		}
		entries, _, err := tx.Spool.Entries(ctx, t.Key)
		if err != nil {
			return nil, err
		}
		s := tx.newSpan(entries, t.Source.Dir, time.Time{})
		s.start, s.end, s.before, s.after = t.Start, tx.Now(), t.Before.Tree, own.after
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
	if b.start.After(a.start) {
		from = b.before
	}
	if b.end.Before(a.end) {
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
