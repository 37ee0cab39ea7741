package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// MoveRequest is a user's request for a move.
type MoveRequest struct {
	Verb   segno.Verb
	Thread segno.ThreadID    // "" means the thread of the workspace
	Turns  int               // undo, redo: the number of turns
	Turn   int               // undo, redo: the last turn to move over, instead of how many
	Steps  bool              // undo, redo: Turns counts checkpoints
	To     segno.CommitID    // restore, fork: the checkpoint
	Name   string            // the user's term for the checkpoint
	Scope  Scope             // restore: which tiers
	Paths  []string          // restore, undo: only these, relative to the root
	Dir    string            // fork: the new directory, absolute; "" makes a thread on the same files
	Title  string            // fork: the title of its thread; "" means the checkpoint's prompt
	Link   *segno.Link       // fork: a session that already ends there; nil makes a new one
	NoNote bool              // fork: do not send the agent a note about the directory
	Op     segno.OperationID // op undo: the operation; "" means the newest
	Force  bool              // overwrite conflicts
	// WhileRunning makes the move even if a turn is open or another program has a database open.
	WhileRunning bool
	// Operation is the id of the move in the operation log. A move with the same id is made only
	// once. If it is "", a new id is made.
	Operation segno.OperationID
}

// Scope selects the tiers that a restore moves.
type Scope string

// The scopes.
const (
	ScopeBoth  Scope = "both"
	ScopeChat  Scope = "chat"
	ScopeFiles Scope = "files"
)

// Plan is a move that was planned and not yet made.
type Plan struct {
	Operation segno.OperationID `json:"operation"`
	Verb      segno.Verb        `json:"verb"`
	Args      string            `json:"args,omitempty"`
	Workspace segno.WorkspaceID `json:"workspace"`
	Thread    segno.ThreadID    `json:"thread"`
	Made      time.Time         `json:"made"`
	Before    segno.Pointers    `json:"before"`
	Turns     []int             `json:"turns,omitempty"` // undone or redone
	// Several reports that other threads also work in the directory, so that the user needs to know
	// whose turns these are. Prompt is the prompt of the first of Turns.
	Several bool   `json:"several,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	// Target is the thread's next head, and Tip its next tip. If Restore is set, the next head is a
	// new checkpoint on the current head.
	Target  segno.CommitID `json:"landing"`
	Tip     segno.CommitID `json:"tip"`
	Restore bool           `json:"restore,omitempty"`
	Label   string         `json:"label,omitempty"`

	FilePlan
	Git string `json:"git,omitempty"` // the command to run if HEAD moved between the two, or ""

	// Session is the position to which the conversation moves, or nil if it does not move. Link is
	// the session that ends there, once it is written.
	Session *segno.Position   `json:"session,omitempty"`
	Link    *segno.Link       `json:"link,omitempty"`
	Undoes  segno.OperationID `json:"undoes,omitempty"`
	// Finishes is the operation whose conflicts this plan overwrites, or "".
	Finishes segno.OperationID `json:"finishes,omitempty"`
}

// FilePlan is the part of a plan that concerns files.
type FilePlan struct {
	Steps     []segno.Change   `json:"steps,omitempty"`
	Times     segno.Hash       `json:"times,omitzero"`
	Conflicts []segno.Conflict `json:"conflicts,omitempty"` // paths that stay because another author changed them
	Forced    []segno.Change   `json:"forced,omitempty"`    // the writes that force makes in place of conflicts, by path
	Kept      []segno.Conflict `json:"kept,omitempty"`      // paths that stay because they are protected
	Lost      bool             `json:"lost,omitempty"`      // a protected path is missing and was never stored
	// Unnamed lists the paths that changed while a command of an undone turn ran and that no tool
	// named.
	Unnamed []string `json:"unnamed,omitempty"`

	goals   []segno.Hash // the trees that the steps come from
	gitThen *segno.Git   // at the snapshot that the files come from; nil if there was no repository
	hidden  []string     // paths to write whose content the present state does not have, because they are protected now
}

// Complete reports whether a plan has no conflict and no lost path.
func (p *FilePlan) Complete() bool { return len(p.Conflicts) == 0 && !p.Lost }

// currentState is the state of a thread and the workspace when a move begins.
type currentState struct {
	threadState
	snap   segno.Snapshot
	staged segno.Staged
}

// Preview plans a move without making it. Without a workspace, the plan only has pointers.
func (tl *Timeline) Preview(ctx context.Context, ask MoveRequest) (*Plan, error) {
	if tl.Workspace == nil {
		p, _, err := tl.unlocked().planHead(ctx, ask)
		return p, err
	}
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	p, now, err := tx.plan(ctx, ask)
	if err != nil {
		return nil, err
	}
	// The scan index now records these objects. If the store lacked them, a later snapshot would
	// have to read those files again.
	return p, tx.keepStaged(ctx, now.staged)
}

func (tx *txn) plan(ctx context.Context, ask MoveRequest) (*Plan, currentState, error) {
	now, err := tx.readCurrent(ctx, ask)
	if err != nil {
		return nil, now, err
	}
	p, err := tx.planFrom(ctx, ask, now)
	if err == nil && len(p.hidden) > 0 {
		if now.snap, now.staged, err = tx.snapshotHidden(ctx, p.goals, now); err != nil {
			return nil, now, err
		}
		p, err = tx.planFrom(ctx, ask, now)
	}
	if err != nil {
		return p, now, err
	}
	if p.Several, err = tx.hasSeveralThreads(ctx); err != nil {
		return p, now, err
	}
	tx.setGitCommand(ctx, p)
	return p, now, tx.refuseClients(ctx, ask, p)
}

// hasSeveralThreads reports whether several threads began in the workspace.
func (tx *txn) hasSeveralThreads(ctx context.Context) (bool, error) {
	n := 0
	for _, err := range tx.Store.Threads(ctx, segno.ThreadQuery{Workspace: tx.Workspace.ID(), TopLevel: true, Limit: 2}) {
		if err != nil {
			return false, err
		}
		n++
	}
	return n > 1, nil
}

// planFrom plans a move from one state of the workspace.
func (tx *txn) planFrom(ctx context.Context, ask MoveRequest, now currentState) (p *Plan, err error) {
	p = &Plan{Operation: ask.operation(), Verb: ask.Verb, Workspace: tx.Workspace.ID(), Thread: now.head.Thread, Made: tx.Now(),
		Before: segno.Pointers{Head: now.head.Head, Tip: now.head.Tip, Session: now.head.Link.Session, Tree: now.snap.Tree}}
	if ask.Verb != segno.VerbRestore {
		if done, err := tx.finishLast(ctx, ask, now, p); done || err != nil {
			return p, err
		}
	}
	if err := tx.planVerb(ctx, ask, now, p); err != nil {
		return p, err
	}
	return p, tx.listUnread(ctx, ask, now, p)
}

// planVerb plans the move for the verb of ask. Without a workspace, only undo, redo and restore are
// possible.
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
	return segno.Errorf(segno.KindInvalid, string(ask.Verb), "", "the request is not a move")
}

// readCurrent finds the thread, returns an error if a turn is open, and takes a snapshot of the
// current state.
func (tx *txn) readCurrent(ctx context.Context, ask MoveRequest) (now currentState, err error) {
	// Closing a turn may make the thread.
	if err := tx.closeOrRefuse(ctx, ask); err != nil {
		return now, err
	}
	here, err := tx.CurrentThread(ctx)
	if err != nil {
		return now, err
	}
	thread := cmp.Or(ask.Thread, here)
	if thread == "" {
		return now, segno.Errorf(segno.KindNotFound, string(ask.Verb), tx.Workspace.Root(), "no thread here yet").
			WithHint("run 'segno enable claude', or 'segno save' to begin one")
	}
	if now.threadState, err = tx.threadState(ctx, thread); err == nil {
		now.threadState, err = tx.captureTurnEnd(ctx, now.threadState)
	}
	if err != nil {
		return now, err
	}
	// A thread of another workspace must not move the files of this one.
	if s := now.at.Workspace; here != thread && s != nil && s.Workspace != tx.Workspace.ID() {
		return now, segno.Errorf(segno.KindRefused, "move", tx.Workspace.Root(), "the thread works in %s", s.Root).
			WithHint("run the command there, or use -C " + s.Root)
	}
	now.snap, now.staged, err = tx.snapshot(ctx)
	return now, err
}

// closeOrRefuse closes the open turns of agents that have exited, and returns an error if an agent
// is at work, so that no files move meanwhile.
func (tx *txn) closeOrRefuse(ctx context.Context, ask MoveRequest) error {
	for _, t := range tx.turns {
		if t, open := tx.openTurn(t.Key); open && t.Workspace == tx.Workspace.ID() && !t.InBackground() {
			if err := tx.closeTurnOrRefuse(ctx, t, ask); err != nil {
				return err
			}
		}
	}
	for _, t := range tx.turns { // a turn that was just closed may have left tasks
		if t, open := tx.openTurn(t.Key); open && t.Workspace == tx.Workspace.ID() && t.InBackground() {
			if err := tx.endTasksOrRefuse(ctx, t, ask); err != nil {
				return err
			}
		}
	}
	return nil
}

// hintRunning is the hint for a move that is refused because an agent works. --while-running changes
// nothing without the user's knowledge: conflicts stay conflicts.
const hintRunning = "wait for it to end, or use --while-running"

// closeTurnOrRefuse is closeOrRefuse for one running turn.
func (tx *txn) closeTurnOrRefuse(ctx context.Context, t OpenTurn, ask MoveRequest) error {
	if ended, err := tx.completeEnd(ctx, t, ask); ended || err != nil {
		return err
	}
	switch {
	case tx.isGone(t) || tx.isOver(ctx, t):
		return tx.closeInterrupted(ctx, t)
	case ask.WhileRunning:
		return nil
	}
	return segno.Errorf(segno.KindRefused, string(ask.Verb), tx.Workspace.Root(), "a turn of %s (%s, pid %d) is open", t.Agent, t.describe(), t.PID).
		WithHint(hintRunning)
}

// completeEnd completes the end of a turn whose process died after it committed the turn and before
// it removed the turn from the spool. The agent has sent its last event about the turn, so no later
// event would end the turn. A turn with newer entries has not ended: its agent continued.
func (tx *txn) completeEnd(ctx context.Context, t OpenTurn, ask MoveRequest) (ended bool, err error) {
	if t.Ended != "" || t.commitsSteps() {
		return false, nil
	}
	done, err := tx.recordedEnd(ctx, t)
	if err != nil || !t.isCommittedAs(done) {
		return false, err
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return false, err
	}
	t.Tasks = startedTasks(entries) // the list from the last event is lost
	if err := tx.refuseTasks(t, entries, ask); err != nil {
		return false, err
	}
	if slices.ContainsFunc(entries, func(e segno.Entry) bool { return !isTaskEnd(e) && e.Time.After(done.Time) }) {
		return false, nil
	}
	return true, tx.closeTurn(ctx, t.Key)
}

// endTasksOrRefuse is closeOrRefuse for a turn with tasks in the background.
func (tx *txn) endTasksOrRefuse(ctx context.Context, t OpenTurn, ask MoveRequest) error {
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	if err := tx.refuseTasks(t, entries, ask); err != nil {
		return err
	}
	return tx.checkBackground(ctx, t, true)
}

// refuseTasks refuses a move while tasks of a turn run in the background.
func (tx *txn) refuseTasks(t OpenTurn, entries []segno.Entry, ask MoveRequest) error {
	var names []string
	for _, task := range t.RunningTasks(entries) {
		names = append(names, strings.TrimSpace(task.Kind+" "+task.ID))
	}
	if len(names) == 0 || tx.isGone(t) || ask.WhileRunning {
		return nil
	}
	return segno.Errorf(segno.KindRefused, string(ask.Verb), tx.Workspace.Root(), "background work of a turn of %s (%s, pid %d) is running: %s",
		t.Agent, t.describe(), t.PID, strings.Join(names, ", ")).WithHint(hintRunning)
}

// describe returns the name of an open turn's thread, and of its session if it has one.
func (t *OpenTurn) describe() string {
	var names []string
	if t.Thread != "" {
		names = append(names, "thread "+string(t.Thread))
	}
	if !t.commitsSteps() {
		names = append(names, "session "+string(t.Source.Session))
	}
	return strings.Join(names, ", ")
}

// planUndo undoes the newest turns of the head's line, newest first.
func (tx *txn) planUndo(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	line, err := tx.line(ctx, now.head.Head)
	if err != nil {
		return err
	}
	legs := undoLegs(line, ask)
	if tx.Workspace == nil {
		legs = withOpenTurn(legs, line, now.head.Head, ask)
	}
	back := tx.newReverter(&ask, now)
	for i := 0; i < len(legs) && !ask.reached(p.Turns); i++ {
		if tx.Workspace != nil {
			if err := back.reverseTurn(ctx, legs[i]); err != nil {
				return err
			}
		}
		p.Turns = append(p.Turns, legs[i].turn)
		p.setTarget(legs[i].below[0], now.head.Tip)
	}
	if err := ask.checkReached(p.Turns); err != nil {
		return err
	}
	p.Args = fmt.Sprint(len(p.Turns)) + ask.force()
	if len(legs[0].parts) > 0 {
		p.Prompt = legs[0].parts[0].Prompt
	}
	switch {
	case tx.Workspace == nil:
		return nil
	case len(ask.Paths) > 0:
		return tx.undoPaths(ctx, ask, now, p, back)
	}
	return p.setSteps(ctx, back)
}

// reached reports whether an undo or redo has passed all requested turns.
func (a *MoveRequest) reached(turns []int) bool {
	if a.Turn > 0 {
		return slices.Contains(turns, a.Turn)
	}
	return len(turns) == a.Turns
}

// checkReached returns an error if an undo or redo could not pass all requested turns.
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
		return segno.Errorf(segno.KindNotFound, verb, "", few, count(len(turns), unit), a.Turns).
			WithHint(fmt.Sprintf("run 'segno %s %d'", verb, len(turns)))
	case a.Verb == segno.VerbRedo:
		return segno.Errorf(segno.KindNotFound, verb, "", "nothing to redo").WithHint(lines)
	}
	return segno.Errorf(segno.KindNotFound, verb, "", "no %s to undo", unit).WithHint("run 'segno log' to see where the thread is")
}

// planRedo redoes the oldest turns between head and tip, oldest first.
func (tx *txn) planRedo(ctx context.Context, ask MoveRequest, now currentState, p *Plan) error {
	line, err := tx.redoLine(ctx, now.head)
	if err != nil {
		return err
	}
	above := tx.Workspace == nil && now.head.Head != now.head.Tip && line[len(line)-1].ID != now.head.Tip
	landed := 0 // the index in line of the checkpoint that redo lands on
	for _, l := range redoLegs(line, above, ask) {
		if ask.reached(p.Turns) {
			break
		}
		landed = min(l.to, len(line)-1)
		p.Turns = append(p.Turns, l.turn)
		p.setTarget(line[landed], now.head.Tip)
		if l.to == len(line) {
			p.Target = now.head.Tip
		}
	}
	if err := ask.checkReached(p.Turns); err != nil {
		return err
	}
	p.Args = fmt.Sprint(len(p.Turns)) + ask.force()
	if tx.Workspace == nil {
		return nil
	}
	if i := slices.IndexFunc(line[1:], func(c *segno.Checkpoint) bool { return endsTurn(c) && c.Turn == p.Turns[0] }); i >= 0 {
		p.Prompt = line[1+i].Prompt
	}
	again := tx.newReverter(&ask, now)
	undone, err := tx.lastWholeUndo(ctx, len(p.Turns), now)
	if err != nil {
		return err
	}
	if undone != nil {
		err = again.reverseOperation(ctx, undone)
	} else {
		err = again.redo(ctx, line[:landed+1])
	}
	if err != nil {
		return err
	}
	return p.setSteps(ctx, again)
}

// redo adds the changes of the turns on a line, oldest first, after its first checkpoint, if moves
// of the thread reverted them. If a change of a turn is gone and no move reverted it, another author
// reverted it before the undo, and redo does not restore it.
func (r *reverter) redo(ctx context.Context, line []*segno.Checkpoint) error {
	moved, err := r.movesSince(ctx, line[min(1, len(line)-1)].Time)
	if err != nil {
		return err
	}
	before, err := r.stateAt(ctx, line[0].ID)
	if err != nil {
		return err
	}
	for _, c := range line[1:] {
		if !hasTree(c.Workspace) {
			continue
		}
		if endsTurn(c) {
			wrote := func(path string) bool {
				return slices.ContainsFunc(moved, func(m movedPaths) bool { return !m.at.Before(c.Time) && m.has(path) })
			}
			if err := r.reverse(ctx, before, c.Workspace, nil, wrote); err != nil {
				return err
			}
		}
		before = c.Workspace
	}
	return nil
}

// reverseTurn adds the changes that revert a turn. Changes that others made while the turn waited
// stay.
func (r *reverter) reverseTurn(ctx context.Context, l leg) error {
	left := l.parts[0].Workspace
	if !hasTree(left) && l.parts[0].Kind == segno.CheckpointStep {
		left = &r.now.snap // the turn's run was killed and left the current state
	}
	for i, c := range l.parts {
		if c.Kind != segno.CheckpointExternal {
			continue
		}
		if err := r.reverse(ctx, left, c.Workspace, l.parts[0], nil); err != nil {
			return err
		}
		left = newestState(slices.Concat(l.parts[i+1:], l.below))
	}
	return r.reverse(ctx, left, newestState(l.below), l.parts[0], nil)
}

// newestTree returns the newest tree of a line that is newest first, or zero.
func newestTree(line []*segno.Checkpoint) segno.Hash {
	if s := newestState(line); s != nil {
		return s.Tree
	}
	return segno.Hash{}
}

// newestState returns the newest state of a line that is newest first. A step may have no tree.
func newestState(line []*segno.Checkpoint) *segno.Snapshot {
	for _, c := range line {
		if hasTree(c.Workspace) || c.Kind != segno.CheckpointStep {
			return c.Workspace
		}
	}
	return nil
}

// redoLine returns the checkpoints from the newest common ancestor of head and tip up to the tip,
// oldest first.
func (tx *txn) redoLine(ctx context.Context, head segno.Head) ([]*segno.Checkpoint, error) {
	line, err := tx.line(ctx, head.Head)
	if err != nil {
		return nil, err
	}
	below := map[segno.CommitID]bool{}
	for _, c := range line {
		below[c.ID] = true
	}
	up, err := tx.line(ctx, head.Tip)
	if i := slices.IndexFunc(up, func(c *segno.Checkpoint) bool { return below[c.ID] }); i >= 0 {
		up = up[:i+1]
	}
	slices.Reverse(up)
	return up, err
}

// force returns the flag in the form that users type, or "".
func (a MoveRequest) force() string {
	if a.Force {
		return forced
	}
	return ""
}

// operation returns the id that the move gets in the operation log.
func (a *MoveRequest) operation() segno.OperationID {
	if a.Operation != "" {
		return a.Operation
	}
	return segno.OperationID(segno.NewID())
}

// name returns the user's term for the checkpoint.
func (a MoveRequest) name() string { return cmp.Or(a.Name, string(a.To)) }

// setTarget makes c the thread's next head.
func (p *Plan) setTarget(c *segno.Checkpoint, tip segno.CommitID) {
	p.Target, p.Tip, p.Session, p.gitThen = c.ID, tip, c.Session, nil
	if c.Workspace != nil {
		p.Times, p.gitThen = c.Workspace.Times, c.Workspace.Git
	}
}
