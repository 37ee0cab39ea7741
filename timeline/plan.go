package timeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// MoveRequest is what a person asks for.
type MoveRequest struct {
	Verb   segno.Verb
	Thread segno.ThreadID    // "" is the thread of the workspace
	Turns  int               // undo, redo: how many
	Turn   int               // undo, redo: the last turn to move over, instead of how many
	Steps  bool              // undo, redo: Turns counts checkpoints
	To     segno.CommitID    // restore, fork: the checkpoint
	Name   string            // how a person calls it
	Scope  Scope             // restore: which tiers
	Paths  []string          // restore, undo: only these, relative to the root
	Dir    string            // fork: the new directory, absolute; "" makes a thread on the same files
	Title  string            // fork: of its thread; "" is the checkpoint's prompt
	Link   *segno.Link       // fork: the session that stands there already; nil cuts one
	NoNote bool              // fork: do not tell the agent where it is
	Op     segno.OperationID // op undo: which; "" is the newest
	Force  bool              // override conflicts and open turns
}

// Scope says which tiers a restore moves.
type Scope string

// The scopes.
const (
	ScopeBoth  Scope = "both"
	ScopeChat  Scope = "chat"
	ScopeFiles Scope = "files"
)

// Plan is a move worked out and not yet made.
type Plan struct {
	Operation segno.OperationID `json:"operation"`
	Verb      segno.Verb        `json:"verb"`
	Args      string            `json:"args,omitempty"`
	Workspace segno.WorkspaceID `json:"workspace"`
	Thread    segno.ThreadID    `json:"thread"`
	Made      time.Time         `json:"made"`
	Before    segno.Pointers    `json:"before"`
	Turns     []int             `json:"turns,omitempty"` // undone or redone
	// Landing is the thread's next head, and Tip its next tip. With Restore, the next
	// head is a new checkpoint on the present one.
	Landing segno.CommitID `json:"landing"`
	Tip     segno.CommitID `json:"tip"`
	Restore bool           `json:"restore,omitempty"`
	Label   string         `json:"label,omitempty"`

	Steps     []segno.Change   `json:"steps,omitempty"`
	Times     segno.Hash       `json:"times,omitzero"`
	Conflicts []segno.Conflict `json:"conflicts,omitempty"` // paths that stay because another author changed them
	Forced    []segno.Change   `json:"forced,omitempty"`    // what force would do about conflicts, by path
	Kept      []segno.Conflict `json:"kept,omitempty"`      // paths that stay because they are protected
	Lost      bool             `json:"lost,omitempty"`      // one of them is gone and not stored: it cannot be brought back
	Git       string           `json:"git,omitempty"`       // what to run if HEAD moved between the two, or ""

	// Session is where the conversation goes, nil if it stays; Link the session
	// that stands there, once it is written.
	Session *segno.Position   `json:"session,omitempty"`
	Link    *segno.Link       `json:"link,omitempty"`
	Undoes  segno.OperationID `json:"undoes,omitempty"`
	// Finishes is the operation whose conflicts are overwritten, "" for a move of
	// turns.
	Finishes segno.OperationID `json:"finishes,omitempty"`

	goals  []segno.Hash // the trees that the steps come from
	hidden []string     // paths to write that the present only records as protected
}

// Complete reports whether a plan leads to all it should: no path is a conflict, and
// none is lost.
func (p *Plan) Complete() bool { return len(p.Conflicts) == 0 && !p.Lost }

// checkPaths is the site as a move finds it.
type currentState struct {
	head   segno.Head
	at     *segno.Checkpoint
	snap   segno.Snapshot
	staged segno.Staged
}

// Preview works a move out and moves nothing.
func (tl *Timeline) Preview(ctx context.Context, ask MoveRequest) (*Plan, error) {
	tx, err := tl.lockForMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	p, now, err := tx.plan(ctx, ask)
	if err != nil {
		return nil, err
	}
	// The scan index knows these objects by now; they may as well be there.
	return p, tx.keepStaged(ctx, now.staged)
}

func (tx *txn) plan(ctx context.Context, ask MoveRequest) (*Plan, currentState, error) {
	now, err := tx.readCurrent(ctx, ask)
	if err != nil {
		return nil, now, err
	}
	p, err := tx.planFrom(ctx, ask, now)
	if err != nil || len(p.hidden) == 0 {
		return p, now, err
	}
	if now.snap, now.staged, err = tx.snapshotHidden(ctx, p.goals, now); err != nil {
		return nil, now, err
	}
	p, err = tx.planFrom(ctx, ask, now)
	return p, now, err
}

// planFrom works a move out from one state of the workspace.
func (tx *txn) planFrom(ctx context.Context, ask MoveRequest, now currentState) (p *Plan, err error) {
	p = &Plan{Operation: segno.OperationID(segno.NewID()), Verb: ask.Verb, Workspace: tx.Workspace.ID(), Thread: now.head.Thread, Made: tx.Now(),
		Before: segno.Pointers{Head: now.head.Head, Tip: now.head.Tip, Session: now.head.Link.Session, Tree: now.snap.Tree}}
	return p, tx.planVerb(ctx, ask, now, p)
}

// planVerb plans the move that ask's verb names. Without a workspace, only undo, redo and
// restore are moves.
func (tx *txn) planVerb(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	switch {
	case ask.Verb == segno.VerbUndo:
		return tx.planUndo(ctx, ask, now, p)
	case ask.Verb == segno.VerbRedo:
		return tx.planRedo(ctx, ask, now, p)
	case ask.Verb == segno.VerbRestore && tx.Workspace == nil:
		return tx.planRestoreHead(ctx, ask, now, p)
	case ask.Verb == segno.VerbRestore:
		return tx.planRestore(ctx, ask, now, p)
	case ask.Verb == segno.VerbOpUndo && tx.Workspace != nil:
		return tx.planOpUndo(ctx, ask, now, p)
	}
	return segno.Errorf(segno.KindInvalid, string(ask.Verb), "", "not a move")
}

// readCurrent finds the thread, refuses while a turn is open and snapshots the present.
func (tx *txn) readCurrent(ctx context.Context, ask MoveRequest) (now currentState, err error) {
	// A turn that is closed now may be what makes the thread.
	if err := tx.closeOrRefuse(ctx, ask); err != nil {
		return now, err
	}
	thread := ask.Thread
	if thread == "" {
		if thread, err = tx.CurrentThread(ctx); err != nil {
			return now, err
		}
	}
	if thread == "" {
		return now, segno.Errorf(segno.KindNotFound, string(ask.Verb), tx.Workspace.Root(), "no thread here yet").WithHint("run 'segno enable claude', or 'segno save' to begin one")
	}
	if now.head, err = tx.Store.Head(ctx, thread); err != nil {
		return now, err
	}
	if now.at, err = tx.checkpoint(ctx, now.head.Head); err != nil {
		return now, err
	}
	if err := tx.refuseForeignThread(ctx, thread, now.at); err != nil {
		return now, err
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	if now.snap, err = tx.Workspace.Snapshot(ctx, batch); err != nil {
		return now, fmt.Errorf("snapshot workspace: %w", err)
	}
	if now.staged, err = batch.Stage(ctx); err != nil {
		return now, fmt.Errorf("stage snapshot: %w", err)
	}
	return now, nil
}

// refuseForeignThread refuses to move one workspace's files by what a thread of another holds.
func (tx *txn) refuseForeignThread(ctx context.Context, thread segno.ThreadID, at *segno.Checkpoint) error {
	here, err := tx.CurrentThread(ctx)
	if err != nil || here == thread || at.Workspace == nil || at.Workspace.Workspace == tx.Workspace.ID() {
		return err
	}
	return segno.Errorf(segno.KindRefused, "move", tx.Workspace.Root(), "the thread works in %s", at.Workspace.Root).WithHint("run the command there, or use -C " + at.Workspace.Root)
}

// closeOrRefuse closes open turns whose agent is gone and refuses to move files
// under one that is at work.
func (tx *txn) closeOrRefuse(ctx context.Context, ask MoveRequest) error {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, t := range turns {
		if t.Workspace != tx.Workspace.ID() || t.InBackground() {
			continue
		}
		if tx.isGone(t) || tx.isOver(ctx, t) {
			r := tx.begin()
			t, open, err := tx.reread(ctx, t.Key)
			if err == nil && open {
				err = r.closeInterrupted(ctx, t)
			}
			if err != nil {
				return err
			}
			continue
		}
		if !ask.Force {
			return segno.Errorf(segno.KindRefused, string(ask.Verb), tx.Workspace.Root(), "a turn of %s (%s, pid %d) is open", t.Agent, t.describe(), t.PID).WithHint("wait for it to end, or use --force")
		}
	}
	if turns, err = tx.Spool.Turns(ctx); err != nil { // one that was just closed may have left tasks
		return err
	}
	for _, t := range turns {
		t, open, err := tx.reread(ctx, t.Key)
		if err == nil && open && t.Workspace == tx.Workspace.ID() && t.InBackground() {
			err = tx.endTasksOrRefuse(ctx, t, ask)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endTasksOrRefuse is closeOrRefuse for a turn whose tasks go on in the background.
func (tx *txn) endTasksOrRefuse(ctx context.Context, t OpenTurn, ask MoveRequest) error {
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	running := t.RunningTasks(entries)
	if len(running) > 0 && !tx.isGone(t) && !ask.Force {
		return segno.Errorf(segno.KindRefused, string(ask.Verb), tx.Workspace.Root(), "background work of a turn of %s (%s, pid %d) is running: %s", t.Agent, t.describe(), t.PID, describeTasks(running)).WithHint("wait for it to end, or use --force")
	}
	r := tx.begin()
	return r.checkBackground(ctx, t, true)
}

// describeTasks names tasks in an error.
func describeTasks(tasks []Task) string {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = strings.TrimSpace(t.Kind + " " + t.ID)
	}
	return strings.Join(names, ", ")
}

// describe names an open turn's session, or the thread of one that has none.
func (t *OpenTurn) describe() string {
	if t.commitsSteps() {
		return "thread " + string(t.Thread)
	}
	return "session " + string(t.Source.Session)
}

// planUndo undoes the newest turns of the head's line, newest first.
func (tx *txn) planUndo(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	if done, err := tx.finishLast(ctx, ask, now, p); done || err != nil {
		return err
	}
	line, err := tx.line(ctx, now.head.Head)
	if err != nil {
		return err
	}
	legs := undoLegs(line, ask)
	if tx.Workspace == nil {
		legs = withOpenTurn(legs, line, now.head.Head, ask)
	}
	back := &reverter{force: ask.Force, merger: tx.newMerger(now)}
	for i := 0; i < len(legs) && !ask.reached(p.Turns); i++ {
		if tx.Workspace != nil {
			if err := tx.reverseTurn(ctx, back, legs[i], now); err != nil {
				return err
			}
		}
		p.Turns = append(p.Turns, legs[i].turn)
		p.setLanding(legs[i].below[0], now.head.Tip)
		p.setGitWarning(now.snap, legs[i].below[0])
	}
	if err := ask.checkReached(p.Turns); err != nil {
		return err
	}
	p.Args = fmt.Sprint(len(p.Turns)) + ask.force()
	switch {
	case tx.Workspace == nil:
		return nil
	case len(ask.Paths) > 0:
		return tx.undoPaths(ctx, ask, now, p, back)
	}
	return p.setSteps(ctx, back)
}

// reached reports whether an undo or redo has moved over all the turns it was asked for.
func (a *MoveRequest) reached(turns []int) bool {
	if a.Turn > 0 {
		return slices.Contains(turns, a.Turn)
	}
	return len(turns) == a.Turns
}

// checkReached returns an error if an undo or redo could not move over all that it was asked for.
func (a *MoveRequest) checkReached(turns []int) error {
	unit := "turn"
	if a.Steps {
		unit = "checkpoint"
	}
	lines := "run 'segno log' to see all lines; 'segno restore' goes to any of them"
	verb, missing, few := string(a.Verb), "turn t%d is not on the line of the thread", "the line has %s, not %d"
	if a.Verb == segno.VerbRedo {
		missing, few = "turn t%d was not undone", "only %s can be redone, not %d"
	}
	switch {
	case a.reached(turns) && len(turns) > 0:
		return nil
	case a.Turn > 0 && (len(turns) > 0 || a.Verb == segno.VerbUndo):
		return segno.Errorf(segno.KindNotFound, verb, "", missing, a.Turn).WithHint(lines)
	case len(turns) > 0:
		return segno.Errorf(segno.KindNotFound, verb, "", few, count(len(turns), unit), a.Turns).WithHint(fmt.Sprintf("run 'segno %s %d'", verb, len(turns)))
	case a.Verb == segno.VerbRedo:
		return segno.Errorf(segno.KindNotFound, verb, "", "nothing to redo").WithHint(lines)
	}
	return segno.Errorf(segno.KindNotFound, verb, "", "no %s to undo", unit).WithHint("run 'segno log' to see where the thread is")
}

// planRedo redoes the oldest turns between head and tip, oldest first.
func (tx *txn) planRedo(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	if done, err := tx.finishLast(ctx, ask, now, p); done || err != nil {
		return err
	}
	line, err := tx.redoLine(ctx, now.head)
	if err != nil {
		return err
	}
	open := tx.Workspace == nil && now.head.Head != now.head.Tip && line[len(line)-1].ID != now.head.Tip
	legs, at := redoLegs(line, open, ask), 0
	again := &reverter{force: ask.Force, merger: tx.newMerger(now)}
	before, err := tx.treeAt(ctx, line[0].ID)
	if err != nil {
		return err
	}
	for i := 0; i < len(legs) && !ask.reached(p.Turns); i++ {
		to := min(legs[i].to, len(line)-1)
		for _, c := range line[at+1 : to+1] {
			if before, err = tx.redoChanges(ctx, again, before, c, now); err != nil {
				return err
			}
		}
		at = to
		p.Turns = append(p.Turns, legs[i].turn)
		p.setLanding(line[to], now.head.Tip)
		p.setGitWarning(now.snap, line[to])
		if legs[i].to == len(line) {
			p.Landing = now.head.Tip
		}
	}
	if err := ask.checkReached(p.Turns); err != nil {
		return err
	}
	p.Args = fmt.Sprint(len(p.Turns)) + ask.force()
	if tx.Workspace == nil {
		return nil
	}
	if undone, err := tx.lastWholeUndo(ctx, len(p.Turns), now); err != nil {
		return err
	} else if undone != nil {
		again = &reverter{force: ask.Force, merger: tx.newMerger(now)}
		if err := tx.reverse(ctx, again, undone.After.Tree, undone.Before.Tree, nil, now); err != nil {
			return err
		}
	}
	return p.setSteps(ctx, again)
}

// redoChanges adds what a checkpoint changed since the tree before, if a turn made it, and
// returns its tree.
func (tx *txn) redoChanges(ctx context.Context, again *reverter, before segno.Hash, c *segno.Checkpoint, now currentState) (segno.Hash, error) {
	tree := c.Tree()
	if tree.IsZero() {
		return before, nil
	}
	if endsTurn(c) {
		return tree, tx.reverse(ctx, again, before, tree, nil, now)
	}
	return tree, nil
}

// reverseTurn adds what reverts a turn. What changed outside while it waited stays.
func (tx *txn) reverseTurn(ctx context.Context, back *reverter, l leg, now currentState) error {
	left := l.parts[0].Tree()
	if left.IsZero() && l.parts[0].Kind == segno.CheckpointStep {
		left = now.snap.Tree // its run was killed: the present is what the turn left
	}
	for i, c := range l.parts {
		if c.Kind != segno.CheckpointExternal {
			continue
		}
		if err := tx.reverse(ctx, back, left, c.Tree(), l.parts[0], now); err != nil {
			return err
		}
		left = newestTree(slices.Concat(l.parts[i+1:], l.below))
	}
	return tx.reverse(ctx, back, left, newestTree(l.below), l.parts[0], now)
}

// newestTree returns the newest tree of a line, newest first. A step may have no tree.
func newestTree(line []*segno.Checkpoint) segno.Hash {
	for _, c := range line {
		if tree := c.Tree(); !tree.IsZero() || c.Kind != segno.CheckpointStep {
			return tree
		}
	}
	return segno.Hash{}
}

// redoLine returns the checkpoints from the newest common one of head's and tip's
// lines up to the tip, oldest first.
func (tx *txn) redoLine(ctx context.Context, head segno.Head) ([]*segno.Checkpoint, error) {
	below := map[segno.CommitID]bool{}
	line, err := tx.line(ctx, head.Head)
	if err != nil {
		return nil, err
	}
	for _, c := range line {
		below[c.ID] = true
	}
	tip, err := tx.line(ctx, head.Tip)
	if err != nil {
		return nil, err
	}
	var up []*segno.Checkpoint
	for _, c := range tip {
		up = append([]*segno.Checkpoint{c}, up...)
		if below[c.ID] {
			break
		}
	}
	return up, nil
}

// planRestore goes to any checkpoint of the thread, or takes one tier or some
// paths from it.
func (tx *txn) planRestore(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	x, err := tx.checkpoint(ctx, ask.To)
	if err != nil {
		return err
	}
	if err := tx.refuseOtherWorkspace(ctx, x, now); err != nil {
		return err
	}
	files := ask.Scope != ScopeChat
	if files && x.Workspace == nil {
		return segno.Errorf(segno.KindNotFound, "restore", string(x.ID), "the files were not recorded then").WithHint("use --chat to move the conversation only")
	}
	if ask.Scope == ScopeChat && len(ask.Paths) > 0 {
		return segno.Errorf(segno.KindInvalid, "restore", "", "--chat takes no paths")
	}
	if ask.Scope == ScopeChat && x.Session == nil {
		return segno.Errorf(segno.KindRefused, "restore", string(x.ID), "its conversation is the thread itself, and goes nowhere alone").WithHint("use 'segno restore' without --chat, or fork there")
	}
	p.Args = restoreArgs(ask)
	if files {
		changes, err := tx.Workspace.Diff(ctx, now.snap.Tree, x.Tree())
		if err != nil {
			return fmt.Errorf("compare workspace: %w", err)
		}
		if err := tx.checkPaths(ctx, ask, x.Tree(), now.snap.Tree); err != nil {
			return err
		}
		p.hideAbove(changes, ask.Paths)
		changes = filterPaths(changes, ask.Paths)
		p.Times, p.goals = x.Workspace.Times, []segno.Hash{x.Tree()}
		p.split(changes)
		p.setGitWarning(now.snap, x)
	}
	if ask.Scope != ScopeBoth || len(ask.Paths) > 0 {
		p.Restore, p.Landing, p.Tip = true, now.head.Head, segno.Self
		p.Label = "restore " + p.Args
		if ask.Scope == ScopeChat {
			p.Session = x.Session
		}
		return nil
	}
	return tx.setRestoreLanding(ctx, x, now, p)
}

// filterPaths refuses a checkpoint of another workspace that the thread does not stand
// on: its files are another project's.
func (tx *txn) refuseOtherWorkspace(ctx context.Context, x *segno.Checkpoint, now currentState) error {
	if x.Thread == now.head.Thread || x.Workspace == nil || x.Workspace.Workspace == tx.Workspace.ID() {
		return nil
	}
	for _, at := range []segno.CommitID{now.head.Head, now.head.Tip} {
		line, err := tx.line(ctx, at)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(line, func(c *segno.Checkpoint) bool { return c.ID == x.ID }) {
			return nil
		}
	}
	return segno.Errorf(segno.KindRefused, "restore", string(x.ID), "it is a checkpoint of %s", x.Workspace.Root).WithHint("use 'segno fork' there to have those files in another directory")
}

// checkPaths checks that each path asked for is in one of two trees at least: a
// typing error must not look like success.
func (tx *txn) checkPaths(ctx context.Context, ask MoveRequest, trees ...segno.Hash) error {
	if len(ask.Paths) == 0 {
		return nil
	}
	missing := map[string]bool{}
	for _, p := range ask.Paths {
		missing[p] = p != "."
	}
	for _, tree := range trees {
		all, err := tx.Workspace.Diff(ctx, segno.Hash{}, tree)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		for _, c := range all {
			delete(missing, c.Path)
		}
	}
	for p, not := range missing {
		if not {
			return segno.Errorf(segno.KindNotFound, string(ask.Verb), p, "no such path at %s or now", ask.name()).WithHint("paths are relative to where you are")
		}
	}
	return nil
}

func (tx *txn) setRestoreLanding(ctx context.Context, x *segno.Checkpoint, now currentState, p *Plan) error {
	p.setLanding(x, x.ID)
	tip, err := tx.line(ctx, now.head.Tip)
	if err != nil {
		return err
	}
	for _, c := range tip {
		if c.ID == x.ID {
			p.Tip = now.head.Tip
		}
	}
	return nil
}

// force is the flag as users type it, or "".
func (a MoveRequest) force() string {
	if a.Force {
		return forced
	}
	return ""
}

func (a MoveRequest) name() string {
	if a.Name != "" {
		return a.Name
	}
	return string(a.To)
}

func restoreArgs(ask MoveRequest) string {
	args := []string{ask.name()}
	if ask.Scope != ScopeBoth {
		args = append(args, "--"+string(ask.Scope))
	}
	for _, p := range ask.Paths {
		args = append(args, segno.QuotePath(p))
	}
	return strings.Join(args, " ")
}

// setLanding makes c the thread's next head.
func (p *Plan) setLanding(c *segno.Checkpoint, tip segno.CommitID) {
	p.Landing, p.Tip, p.Session = c.ID, tip, c.Session
	if c.Workspace != nil {
		p.Times = c.Workspace.Times
	}
}
