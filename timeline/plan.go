package timeline

import (
	"cmp"
	"context"
	"time"

	"github.com/dalsegno/segno"
)

// MoveRequest is a user's request for a move.
type MoveRequest struct {
	Verb   segno.Verb
	Thread segno.ThreadID    // "" means the thread of the workspace
	Turns  int               // undo, redo: the number of turns
	Turn   int               // undo, redo: the last turn to move over, instead of how many
	Only   []int             // undo: these turns alone, and not the newer ones; only files change
	Steps  bool              // undo, redo: Turns counts checkpoints
	To     segno.CommitID    // restore, fork: the checkpoint
	Point  int               // restore of files: the files at the end of this call of the turn of To; 0 means To itself
	Name   string            // the user's term for the checkpoint
	Scope  Scope             // restore: which tiers
	Paths  []string          // restore, undo: only these, relative to the root
	Dir    string            // fork: the new directory, absolute; "" makes a thread on the same files
	Title  string            // fork: the title of its thread; "" means the checkpoint's prompt
	Link   *segno.Link       // fork: a session that already ends there; nil makes a new one
	NoNote bool              // fork: do not send the agent a note about the directory
	Op     segno.OperationID // op undo: the operation; "" means the newest
	Force  bool              // overwrite conflicts
	// Parts, if not nil, makes a move of files that writes only some parts of its steps: by path, the
	// indexes of the parts in [Timeline.Parts]. Preview ignores the content of Parts and plans all steps.
	Parts map[string][]int
	// Follow restores a thread that another machine continued. The plan leaves out what two machines may each have in another state:
	// protected paths, and the bits setuid and setgid of directories.
	Follow bool
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
	Actor     string            `json:"actor,omitempty"`
	Workspace segno.WorkspaceID `json:"workspace"`
	Thread    segno.ThreadID    `json:"thread"`
	Made      time.Time         `json:"made"`
	Before    segno.Pointers    `json:"before"`
	Turns     []int             `json:"turns,omitempty"` // undone or redone
	// Only reports an undo of Turns alone: newer turns of the line are not undone.
	Only bool `json:"only,omitempty"`
	// Several reports that other threads also work in the directory, so that the user needs to know
	// whose turns these are. Prompt is the prompt of the first of Turns.
	Several bool   `json:"several,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	// Target is the thread's next head, and Tip its next tip. If Restore is set, the next head is a
	// new checkpoint on the current head. The journal calls it landing, the earlier name.
	Target  segno.CommitID `json:"landing"`
	Tip     segno.CommitID `json:"tip"`
	Restore bool           `json:"restore,omitempty"`
	Label   string         `json:"label,omitempty"`

	FilePlan
	Point *Point `json:"point,omitempty"` // the point inside a turn from which the files come, or nil
	Git   string `json:"git,omitempty"`   // the command to run if HEAD moved between the two, or ""

	// Session is the position to which the conversation moves, or nil if it does not move. Link is
	// the session that ends there, once it is written.
	Session *segno.Position   `json:"session,omitempty"`
	Link    *segno.Link       `json:"link,omitempty"`
	Undoes  segno.OperationID `json:"undoes,omitempty"`
	// Finishes is the operation whose conflicts this plan overwrites, or "".
	Finishes segno.OperationID `json:"finishes,omitempty"`

	// Of a move that was planned again: whether an undo or a redo counts checkpoints, and the directories to remove with the conflicts
	// in them.
	steps   bool
	emptied []segno.Change
}

// FilePlan is the part of a plan that concerns files.
type FilePlan struct {
	Steps     []segno.Change   `json:"steps,omitempty"`
	Times     segno.Hash       `json:"times,omitzero"`
	Conflicts []segno.Conflict `json:"conflicts,omitempty"` // paths that stay because another author changed them
	Forced    []segno.Change   `json:"forced,omitempty"`    // the writes that force makes in place of conflicts, by path
	Kept      []segno.Conflict `json:"kept,omitempty"`      // paths that stay because they are protected
	Lost      bool             `json:"lost,omitempty"`      // a protected path is missing and was never stored
	// Unnamed lists the paths that changed while a command of an undone turn ran, by no tool that
	// names them.
	Unnamed []string `json:"unnamed,omitempty"`

	goals   []segno.Hash   // the trees that the steps come from
	gitThen *segno.Git     // at the snapshot that the files come from; nil if there was no repository
	full    []segno.Change // the removals of directories that are not steps, because conflicts are in them
	hidden  []string       // paths to write whose content the present state does not have, because they are protected now
}

// Complete reports whether a plan has no conflict and no lost path.
func (p *FilePlan) Complete() bool { return len(p.Conflicts) == 0 && !p.Lost }

// currentState is the state of a thread and the workspace when a move begins.
type currentState struct {
	threadState
	snap   segno.Snapshot
	staged segno.Staged
	until  segno.OperationID // the move from this state that is planned again, or ""
}

// Preview plans a move and makes no step of it: no file is written and no head moves to the target.
// Before it plans, it commits deferred commits, completes an interrupted move, and records the end of
// turns whose agents have exited, because a plan begins from the present state. If a requested move
// waits for no turn, Preview makes it and returns a [segno.KindConflict]. It does the same after it completed a move for which [Timeline.Move]
// does so. Without a workspace, the plan only has pointers, and Preview changes nothing.
func (tl *Timeline) Preview(ctx context.Context, ask MoveRequest) (*Plan, error) {
	if tl.Workspace == nil {
		p, _, err := tl.unlocked().planHead(ctx, ask)
		return p, err
	}
	if err := tl.refuseAfterRequested(ctx, ask); err != nil {
		return nil, err
	}
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	if err := tx.completed.CheckRepeated(ask); err != nil {
		return nil, err
	}
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
	lines := func() ([]segno.CommitID, error) { return tx.linesOf(ctx, ask, now, p) }
	if err := tx.refuseUntrusted(ctx, ask.Verb, p.Steps, lines); err != nil {
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
	p = &Plan{Operation: ask.operation(), Verb: ask.Verb, Actor: tx.Actor, Workspace: tx.Workspace.ID(), Thread: now.head.Thread, Made: tx.Now(),
		Before: segno.Pointers{Head: now.head.Head, Tip: now.head.Tip, Session: now.head.Link.Session, Tree: now.snap.Tree}}
	if ask.Verb != segno.VerbRestore {
		done, err := tx.finishLast(ctx, ask, now, p)
		if done && err == nil {
			err = tx.blockFull(ctx, now, p)
		}
		if done || err != nil {
			return p, err
		}
	}
	if err := tx.planVerb(ctx, ask, now, p); err != nil {
		return p, err
	}
	if err := tx.blockFull(ctx, now, p); err != nil {
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
	if err := tx.refuseIncomplete(ctx, string(ask.Verb)); err != nil {
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
