package timeline

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// ownState returns the state that a move alone left: the state before it plus its steps. The current state,
// present, can contain changes of others: of processes that worked during the move, and of any process if
// the move was interrupted and is completed later. An undo of the move must not touch these. refused has
// the paths that were not written. If late is set, the move was interrupted, and may have written them
// before. ownState removes the steps that were not made from the plan.
func (tx *txn) ownState(ctx context.Context, p *Plan, refused []segno.Conflict, late bool, present segno.Snapshot) (segno.Snapshot, segno.Staged, error) {
	before, err := tx.operationState(ctx, p.Before)
	if err != nil {
		return present, segno.Staged{}, err
	}
	since, err := tx.diffStates(ctx, before, &present)
	if err != nil {
		return present, segno.Staged{}, err
	}
	differs := make(map[string]segno.Change, len(since))
	protected := map[string]bool{} // directories that have become protected; since does not list their content
	for _, c := range since {
		differs[c.Path] = c
		if c.To.Type == segno.EntityProtected {
			protected[c.Path] = true
		}
	}
	notWritten := make(map[string]bool, len(refused))
	for _, c := range refused {
		notWritten[c.Path] = true
	}
	var others, made []segno.Change // others turn the present state into the state that the move left
	for _, s := range p.Steps {
		now := s.From
		if c, ok := differs[s.Path]; ok {
			now = c.To
		}
		delete(differs, s.Path)
		left, isMade := leftByStep(s, now, hasAncestorIn(s.Path, protected), notWritten[s.Path], late)
		if left != nil {
			others = append(others, *left)
		}
		if isMade {
			made = append(made, s)
		}
	}
	p.Steps = made
	for _, c := range differs {
		others = append(others, segno.Change{Path: c.Path, From: c.To, To: c.From})
	}
	if len(others) == 0 {
		return present, segno.Staged{}, nil
	}
	base, err := tx.stateAt(ctx, p.Before.Head)
	if err != nil {
		return present, segno.Staged{}, err
	}
	if base == nil || base.Tree != p.Before.Tree {
		base = before // without modification times
	}
	return tx.withChanges(ctx, present, *base, others)
}

// leftByStep compares a path, whose present state is now, with the state that a step of a move left there. It
// returns the change from the present state to that state, or nil if they are equal. isMade reports whether
// the step was made. hidden is set if a rule protects the path now, and refused if the path was not written.
// See [txn.ownState] for late.
func leftByStep(s segno.Change, now segno.Entity, hidden, refused, late bool) (left *segno.Change, isMade bool) {
	switch {
	case hidden && refused, refused && now == s.From:
		return nil, false
	case hidden: // the present state does not show the content
		return &segno.Change{Path: s.Path, From: s.From, To: s.To}, true
	case now == s.From, now == s.To, now.HasContent() && s.To.HasContent() && now.Hash == s.To.Hash:
		return nil, true
	case refused && !late, now.Type == segno.EntityProtected:
		return &segno.Change{Path: s.Path, From: now, To: s.From}, false
	}
	// The path changed after the move had written it, or was merged in the completion.
	return &segno.Change{Path: s.Path, From: now, To: s.To}, true
}

// hasAncestorIn reports whether a directory above a path is in a set of directories.
func hasAncestorIn(name string, dirs map[string]bool) bool {
	for dir := path.Dir(name); dir != "." && len(dirs) > 0; dir = path.Dir(dir) {
		if dirs[dir] {
			return true
		}
	}
	return false
}

// withChanges is [segno.Workspace.WithChanges].
func (tx *txn) withChanges(ctx context.Context, onto, base segno.Snapshot, changes []segno.Change) (segno.Snapshot, segno.Staged, error) {
	return tx.snapshotWith(ctx, func(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
		return tx.Workspace.WithChanges(ctx, b, onto, base, changes)
	})
}

// mergeSince returns the steps that complete an interrupted move from the current state. A file that
// changed since then is merged by lines, like a file that changed since a turn: it keeps the new lines,
// whether or not the move had written it. Files that cannot be merged stay unchanged.
func (tx *txn) mergeSince(ctx context.Context, p *Plan) ([]segno.Change, error) {
	var now currentState
	var err error
	if now.snap, now.staged, err = tx.snapshot(ctx); err != nil {
		return nil, err
	}
	merged, _, err := tx.mergeSteps(ctx, p, now)
	return merged, err
}

// rebase changes the steps of an interrupted move so that they start from a state that was recorded later.
func (tx *txn) rebase(ctx context.Context, p *Plan, onto *segno.Snapshot) error {
	steps, left, err := tx.mergeSteps(ctx, p, currentState{snap: *onto})
	p.Conflicts = append(p.Conflicts, left...)
	isLeft := func(s segno.Change) bool {
		return s.From == s.To || slices.ContainsFunc(left, func(c segno.Conflict) bool { return c.Path == s.Path })
	}
	p.Steps = slices.DeleteFunc(steps, isLeft)
	return err
}

// mergeSteps returns the steps of a plan so that they start from the current state, not from the state for
// which the plan was made. left lists the paths that cannot be merged; their steps are unchanged.
func (tx *txn) mergeSteps(ctx context.Context, p *Plan, now currentState) (steps []segno.Change, left []segno.Conflict, err error) {
	before, err := tx.operationState(ctx, p.Before)
	if err != nil {
		return nil, nil, err
	}
	since, err := tx.diffStates(ctx, before, &now.snap)
	if err != nil {
		return nil, nil, err
	}
	present := entities(since)
	r := tx.newReverter(&MoveRequest{}, now)
	steps = slices.Clone(p.Steps)
	for i, s := range steps {
		e, changed := present[s.Path]
		if !changed || e == s.From {
			continue
		}
		if e == s.To {
			steps[i].From = e
			continue
		}
		merged, conflict, err := r.merge(ctx, s.From, e, s.To)
		if err != nil {
			return nil, nil, err
		}
		if conflict != "" {
			left = append(left, segno.Conflict{Path: s.Path, Why: conflict})
			continue
		}
		steps[i] = segno.Change{Path: s.Path, From: e, To: merged, Merged: true}
	}
	if err := r.stageMerged(ctx, steps); err != nil {
		return nil, nil, err
	}
	return steps, left, tx.keepStaged(ctx, r.now.staged)
}

// moveTurn adds a move that was made during an open turn to the state with which the turn began. Changes
// that the turn made before the move stay the turn's. A path that both wrote is in doubt, unless the two
// changes can be merged. at is the thread's new head.
func (tx *txn) moveTurn(ctx context.Context, t OpenTurn, op *segno.Operation, at *segno.Checkpoint) error {
	if t.Thread == op.Thread {
		t.Parent = at.ID
	}
	if t.Moved == op.ID || t.Before == nil {
		return tx.saveTurn(ctx, t)
	}
	before, err := tx.operationState(ctx, op.Before)
	if err != nil {
		return err
	}
	changes, err := tx.changesOf(ctx, op)
	if err != nil {
		return err
	}
	wrote, err := tx.diffStates(ctx, t.Before, before)
	if err != nil {
		return err
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	// A path in doubt stays in doubt: a move may restore a change that an earlier move removed from the
	// turn.
	known := listedPaths(entries, segno.EntryDoubt)
	changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return known[c.Path] })
	next, doubt, err := tx.changesOfMove(ctx, changes, wrote, tx.mayHaveWritten(&t, entries))
	if err != nil {
		return err
	}
	var times segno.Snapshot
	if at.Workspace != nil {
		times = *at.Workspace
	}
	state, staged, err := tx.withChanges(ctx, *t.Before, times, next)
	if err == nil {
		err = tx.keepStaged(ctx, staged)
	}
	if err == nil && len(doubt) > 0 {
		err = tx.Spool.AppendEntry(ctx, t.Key, pathsEntry(segno.EntryDoubt, doubt, t.Source.Session, tx.Now()))
	}
	if err != nil {
		return err
	}
	t.Before, t.Moved = &state, op.ID
	return tx.saveTurn(ctx, t)
}

// mayHaveWritten returns a function that reports whether an open turn may have written a path before the
// move. The move has written the path since then, so its ctime no longer shows when the turn or another
// author did.
func (tx *txn) mayHaveWritten(t *OpenTurn, entries []segno.Entry) func(path string) bool {
	now := tx.Now()
	e := &ownership.Evidence{Calls: tx.calls(entries, t.Source.Dir, now, nil), Root: tx.Workspace.Root()}
	if !agents.ReportsCalls(t.Agent) || len(t.Tasks) > 0 || e.RanBefore(now) {
		return func(string) bool { return true }
	}
	return e.Named
}

// changesOfMove returns the changes of a move as changes of the state with which an open turn began. wrote
// are the changes between that state and the move, of the turn and of others. mayWrite reports whether the
// turn may have written a path.
func (tx *txn) changesOfMove(ctx context.Context, changes, wrote []segno.Change, mayWrite func(path string) bool) (next []segno.Change, doubt []string, err error) {
	of := make(map[string]segno.Change, len(wrote))
	for _, w := range wrote {
		of[w.Path] = w
	}
	r := tx.newReverter(&MoveRequest{}, currentState{})
	need := map[string]bool{} // directories that the turn made and to which the move wrote
	for _, c := range changes {
		w, changed := of[c.Path]
		if changed && !mayWrite(c.Path) {
			c.From = w.From // another author's change: the turn begins with the state that the move left
		} else if changed {
			merged, conflict, err := r.merge(ctx, c.From, w.From, c.To)
			if w.From == c.To {
				conflict = whyChanged // the move reverted the turn's change
			}
			if err != nil {
				return nil, nil, err
			}
			if conflict != "" {
				doubt = append(doubt, c.Path)
				continue
			}
			c.To = merged
		}
		next = append(next, c)
		for dir := path.Dir(c.Path); dir != "." && c.To.Type != segno.EntityNone && !need[dir]; dir = path.Dir(dir) {
			if d, ok := of[dir]; ok && d.From.Type != segno.EntityDir && d.To.Type == segno.EntityDir {
				need[dir] = true
				next = append(next, segno.Change{Path: dir, From: d.From, To: d.To})
			}
		}
	}
	return next, doubt, r.stageMerged(ctx, next)
}

// movedPaths are the paths that one move of a thread wrote.
type movedPaths struct {
	at    time.Time
	tip   *segno.Checkpoint // of the thread before it; nil if a collection removed that
	from  segno.CommitID    // the head of the thread before it
	head  segno.CommitID    // of the thread after it
	paths map[string]bool   // nil if they are no longer known; true for a path that was protected on one side
}

// isSince reports whether the move came after the checkpoint c. The clock may have stepped back between them, but a move comes
// after the tip from which it began.
func (m *movedPaths) isSince(c *segno.Checkpoint) bool {
	return !m.at.Before(c.Time) || m.tip != nil && m.tip.Thread == c.Thread && m.tip.Seq >= c.Seq
}

// isSince is [movedPaths.isSince] for an operation. It reads the tip only if the clock may have stepped back.
func (tx *txn) isSince(ctx context.Context, op *segno.Operation, c *segno.Checkpoint) (is bool, err error) {
	m := movedPaths{at: op.Time}
	if op.Time.Before(c.Time) {
		m.tip, err = tx.checkpoint(ctx, op.Before.Tip)
	}
	if segno.KindOf(err) == segno.KindNotFound {
		err = nil
	}
	return m.isSince(c), err
}

// has reports whether the move wrote a path, or may have written it, because the content of a protected
// directory is unknown.
func (m *movedPaths) has(name string) bool {
	if _, ok := m.paths[name]; ok || m.paths == nil {
		return true
	}
	return hasAncestorIn(name, m.paths)
}

// leftBy returns the checkpoints at or below the heads from which moves of the thread began or to which they led. A
// checkpoint that is not among them and not on the thread's line never was in this directory: a pull or an archive
// brought the thread, which was below it. So the log of moves here does not show which changes of it were reverted. The result is nil
// if a collection removed one of the heads.
func (r *reverter) leftBy(ctx context.Context, moved []movedPaths) (map[segno.CommitID]bool, error) {
	left := map[segno.CommitID]bool{}
	for _, m := range moved {
		for _, head := range []segno.CommitID{m.from, m.head} {
			if left[head] {
				continue
			}
			line, err := r.line(ctx, head)
			if segno.KindOf(err) == segno.KindNotFound {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			for _, c := range line {
				left[c.ID] = true
			}
		}
	}
	return left, nil
}

// movesSince returns the moves of the thread since the checkpoint c.
func (r *reverter) movesSince(ctx context.Context, c *segno.Checkpoint) (all []movedPaths, err error) {
	for op, err := range r.operationsUntil(ctx, r.now.until) {
		if err != nil {
			return nil, err
		}
		if op.Thread != r.now.head.Thread {
			continue
		}
		m := movedPaths{at: op.Time, from: op.Before.Head, head: op.After.Head}
		if m.tip, err = r.checkpoint(ctx, op.Before.Tip); err != nil && segno.KindOf(err) != segno.KindNotFound {
			return nil, err
		}
		if !m.isSince(c) {
			break
		}
		if !op.MovesFiles() || op.Before.Tree.IsZero() || op.After.Tree.IsZero() {
			continue
		}
		changes, err := r.changesOf(ctx, &op)
		if errors.Is(err, segno.KindNotFound) { // a collection removed its states
			all = append(all, m)
			continue
		}
		if err != nil {
			return nil, err
		}
		m.paths = make(map[string]bool, len(changes))
		for _, c := range changes {
			m.paths[c.Path] = c.From.Type == segno.EntityProtected || c.To.Type == segno.EntityProtected
		}
		if err := r.addUnwritten(ctx, &op, &m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// addUnwritten adds the paths that a move reverted without writing them. If it went back over several turns, and one of them had
// reverted the change of an earlier one, then the path is the same before the move and after it.
func (r *reverter) addUnwritten(ctx context.Context, op *segno.Operation, m *movedPaths) error {
	legs, err := r.legsBetween(ctx, op)
	if err == nil && len(legs) > 1 {
		var before *segno.Snapshot
		if before, err = r.operationState(ctx, op.Before); err != nil {
			return err
		}
		// Only an undo keeps the changes of others.
		ask := MoveRequest{Force: op.Verb != segno.VerbUndo || strings.HasSuffix(op.Args, forced)}
		back := r.newReverter(&ask, currentState{threadState: r.now.threadState, snap: *before})
		for i := 0; i < len(legs) && err == nil; i++ {
			err = back.reverseTurn(ctx, legs[i])
		}
		for name, f := range back.files {
			if _, written := m.paths[name]; !written && f.reverted {
				m.paths[name] = false
			}
		}
	}
	if errors.Is(err, segno.KindNotFound) { // a collection removed a state
		m.paths, err = nil, nil
	}
	return err
}

// legsBetween returns the turns, and the steps with files, over which a move went back, newest first.
func (tx *txn) legsBetween(ctx context.Context, op *segno.Operation) ([]leg, error) {
	if op.Verb == segno.VerbRedo {
		return nil, nil
	}
	line, err := tx.line(ctx, op.Before.Head)
	if err != nil {
		return nil, err
	}
	left, err := tx.line(ctx, op.After.Head)
	if err != nil {
		return nil, err
	}
	isLeft := map[segno.CommitID]bool{}
	for _, c := range left {
		isLeft[c.ID] = true
	}
	legs := undoLegs(line, MoveRequest{Steps: true})
	return slices.DeleteFunc(legs, func(l leg) bool {
		c := l.parts[0]
		return isLeft[c.ID] || !endsTurn(c) || !hasTree(c.Workspace) && c.ID != line[0].ID
	}), nil
}

// changesOf returns the changes that an operation made. No operation writes protected paths: the states differ in these if another machine has them.
func (tx *txn) changesOf(ctx context.Context, op *segno.Operation) ([]segno.Change, error) {
	before, after, err := tx.operationStates(ctx, op)
	if err != nil {
		return nil, err
	}
	changes, err := tx.diffStates(ctx, before, after)
	return slices.DeleteFunc(changes, func(c segno.Change) bool { return !isSaved(c.From) && !isSaved(c.To) }), err
}
