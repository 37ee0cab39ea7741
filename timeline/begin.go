package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Prompt is the beginning of a turn.
type Prompt struct {
	Key      segno.TurnKey // the agent's id of the prompt; "" if it has none
	Agent    string
	Source   segno.Source
	Text     string
	Task     string         // the background task that the prompt reports on; "" if a user wrote it
	PID      int            // of the agent, 0 if not known
	PIDStart string         // see [OpenTurn]
	Queued   bool           // see [OpenTurn]
	Owner    string         // of the lease on the thread, if the caller holds one
	Thread   segno.ThreadID // of the session, if the caller knows it; "" finds it by the id of the session

	Group      int // see [OpenTurn]
	GroupStart string
}

// TurnStart is what the agent or its user should hear at the beginning of a turn.
type TurnStart struct {
	Key  segno.TurnKey
	Tell string // for the agent: one sentence about a move since its last turn, or ""
	Warn string // for the user, or ""
}

// BeginTurn opens a turn. If the files changed since the thread's head, BeginTurn commits
// an external checkpoint first. On return the open turn is durable. Turns of the same
// session, and of agents whose process is gone, are closed as interrupted. A prompt that
// belongs to an open turn is added to that turn.
func (tl *Timeline) BeginTurn(ctx context.Context, p Prompt) (TurnStart, error) {
	if p.Source.Session == "" {
		return TurnStart{}, segno.Errorf(segno.KindInvalid, "begin turn", "", "it needs a session")
	}
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return TurnStart{}, err
	}
	defer tx.unlock()

	if open, err := tx.joinOpenTurn(ctx, p); open != "" || err != nil {
		return TurnStart{Key: open}, err
	}
	if p.Key == "" {
		p.Key = segno.TurnKey(segno.NewID())
	}
	others, err := tx.closeStale(ctx, p)
	if err != nil {
		return TurnStart{}, err
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	snap, err := tx.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return TurnStart{}, fmt.Errorf("snapshot workspace: %w", err)
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return TurnStart{}, fmt.Errorf("stage snapshot: %w", err)
	}
	turn := OpenTurn{Key: p.Key, Agent: p.Agent, Source: p.Source, Workspace: tx.Workspace.ID(),
		Prompt: p.Text, Before: &snap, Start: tx.Now(), PID: p.PID, PIDStart: p.PIDStart,
		Queued: p.Queued, Owner: p.Owner, Group: p.Group, GroupStart: p.GroupStart}
	if turn.Thread = p.Thread; turn.Thread == "" {
		turn.Thread, err = tx.threadWithDeferred(ctx, p.Source.Session)
	}
	if err != nil {
		return TurnStart{}, fmt.Errorf("find thread: %w", err)
	}

	begun, warned := TurnStart{Key: p.Key}, false
	if turn.Thread == "" {
		// Which thread this session belongs to its transcript will tell, at the
		// turn's end; until then the open turn keeps the snapshot alive.
		if err := tx.keepOrHold(ctx, staged, &turn); err != nil {
			return TurnStart{}, fmt.Errorf("keep snapshot: %w", err)
		}
	} else if begun, warned, err = tx.beginOn(ctx, &turn, snap, staged); err != nil {
		return TurnStart{}, err
	}
	if len(others) > 0 && !warned && begun.Warn == "" {
		begun.Warn = fmt.Sprintf("segno: another agent is at work in %s; paths both touch will count as conflicts in an undo", tx.Workspace.Root())
	}
	if err := tx.Spool.Open(ctx, turn); err != nil {
		return TurnStart{}, err
	}
	return begun, tx.stuck
}

// beginOn brings a known thread up to the present: the session prompted becomes
// its head session, and what moved outside turns becomes an external checkpoint.
// warned says that the thread has a shared turn: its user knows.
func (tx *txn) beginOn(ctx context.Context, turn *OpenTurn, snap segno.Snapshot, staged segno.Staged) (begun TurnStart, warned bool, err error) {
	begun.Key = turn.Key
	head, at, err := tx.headAndCheckpoint(ctx, turn.Thread)
	if err != nil {
		return begun, false, err
	}
	// A failure to make the note must not lose the turn.
	if begun.Tell, err = tx.moveNote(ctx, head, at, turn.Source.Session); segno.KindOf(err) == segno.KindCancelled {
		return begun, false, err
	}
	was := at
	if head.Link.Session != turn.Source.Session {
		if head, at, err = tx.switchSession(ctx, head, at, turn.Source); err != nil {
			return begun, false, err
		}
	} else if head.Link.Note != "" && !hasHeardNote(at, head.Link) {
		begun.Tell = strings.TrimSuffix(head.Link.Note+"\n\n"+begun.Tell, "\n\n")
	}
	warned = at.Shared
	if head, at, err = tx.recordMove(ctx, head, was, at, snap, turn.Key); err != nil {
		return begun, false, err
	}
	turn.Note, turn.Parent = begun.Tell, head.Head
	if at.Tree() == snap.Tree {
		return begun, warned, tx.keepOrHold(ctx, staged, turn)
	}
	c, err := tx.externalCommit(ctx, head, at, snap, turn.Key)
	if err != nil {
		return begun, false, err
	}
	c.Staged = staged
	begun.Warn = unsavedWarning(c.Checkpoint.Files.Protected)
	head, _, err = tx.commitOrDefer(ctx, head, c)
	turn.Parent = head.Head
	return begun, warned, err
}

// hasHeardNote reports whether a turn of the head session has been recorded since it got
// its note: that was heard then.
func hasHeardNote(at *segno.Checkpoint, l segno.Link) bool {
	return at.Kind == segno.CheckpointTurn && at.Session != nil && at.Session.Session == l.Session && at.Time.After(l.Start)
}

// externalCommit returns a commit that records a change of the workspace since checkpoint at
// that the thread's agent did not make. The tip stays, so that redo still reaches the
// undone turns.
func (tx *txn) externalCommit(ctx context.Context, head segno.Head, at *segno.Checkpoint, snap segno.Snapshot, salt segno.TurnKey) (segno.Commit, error) {
	counts, err := tx.count(ctx, at.Tree(), snap.Tree)
	if err != nil {
		return segno.Commit{}, fmt.Errorf("compare workspace: %w", err)
	}
	id := segno.CommitID(segno.DerivedID("external", string(at.ID), snap.Tree.String(), string(salt)))
	tip := head.Tip
	if head.Tip == head.Head {
		tip = segno.Self
	}
	return segno.Commit{
		ID: id, Thread: head.Thread, Parent: at.ID, Expect: head.Head, Epoch: head.Epoch,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointExternal, Turn: at.Turn, Time: tx.Now(), Agent: at.Agent,
			Files: counts, Session: at.Session, Workspace: &snap, Step: at.Step, Members: at.Members},
		Move:      &segno.Move{Head: segno.Self, Tip: tip},
		Workspace: tx.workspaceStateAfter(head.Thread, id, &snap),
	}, nil
}

// switchSession makes another session of the chain the head session: the user went on
// in it, so a new line begins where that session ended.
func (tx *txn) switchSession(ctx context.Context, head segno.Head, at *segno.Checkpoint, src segno.Source) (segno.Head, *segno.Checkpoint, error) {
	last, err := tx.first(ctx, segno.CheckpointQuery{Thread: head.Thread, Session: src.Session})
	if err != nil {
		return head, at, err
	}
	if last == nil {
		last, err = tx.cutFrom(ctx, head, at, src.Session)
	} else {
		last, err = tx.endOf(ctx, last, src.Session)
	}
	if err != nil {
		return head, at, err
	}
	link := &segno.Link{Agent: last.Agent, Session: src.Session, Dir: src.Dir, Path: src.Path, Start: tx.Now(),
		Reason: string(segno.VerbSwitch), Fidelity: segno.FidelityNative, At: last.ID}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Expect: head.Head, Epoch: head.Epoch,
		Move: &segno.Move{Head: last.ID, Tip: last.ID}, Link: link,
		Operation: &segno.Operation{ID: segno.OperationID(segno.NewID()), Workspace: tx.Workspace.ID(), Thread: head.Thread,
			Verb: segno.VerbSwitch, Args: string(src.Session), Time: tx.Now(),
			Before: segno.Pointers{Head: head.Head, Tip: head.Tip, Session: head.Link.Session, Tree: at.Tree()},
			After:  segno.Pointers{Head: last.ID, Tip: last.ID, Session: src.Session, Tree: at.Tree()}}}
	now, _, err := tx.commitOrDefer(ctx, head, c)
	return now, last, err
}

// endOf returns where a session ended: last, its newest checkpoint, or its newest
// turn if last is below that. Moves make checkpoints of older positions.
func (tx *txn) endOf(ctx context.Context, last *segno.Checkpoint, session segno.SessionID) (*segno.Checkpoint, error) {
	if last.Kind == segno.CheckpointTurn {
		return last, nil
	}
	turn, err := tx.newestTurn(ctx, last.Thread, session)
	if err != nil || turn == nil {
		return last, err
	}
	line, err := tx.line(ctx, last.ID)
	if segno.KindOf(err) == segno.KindNotFound {
		return last, nil // it waits for the store
	}
	if err != nil || slices.ContainsFunc(line, func(c *segno.Checkpoint) bool { return c.ID == turn.ID }) {
		return last, err
	}
	return turn, nil
}

// cutFrom returns the checkpoint a session was cut at that had no turn yet.
func (tx *txn) cutFrom(ctx context.Context, head segno.Head, at *segno.Checkpoint, session segno.SessionID) (*segno.Checkpoint, error) {
	l, err := tx.linkOf(ctx, head, session)
	if err != nil || l == nil || l.At == "" {
		return at, err
	}
	return tx.checkpoint(ctx, l.At)
}

// linkOf returns the newest link of a session in the thread's chain, or nil.
func (tx *txn) linkOf(ctx context.Context, head segno.Head, session segno.SessionID) (*segno.Link, error) {
	if head.Link.Session == session {
		return &head.Link, nil
	}
	chains, ok := tx.Store.(segno.Chains)
	if !ok {
		return nil, nil
	}
	var found *segno.Link
	for l, err := range chains.Chain(ctx, head.Thread) {
		if err != nil {
			return nil, err
		}
		if l.Session == session {
			found = &l
		}
	}
	return found, nil
}

// firstLinkOf returns the link that brought a session into the thread's chain, or
// nil: later ones only say that it was gone back to.
func (tx *txn) firstLinkOf(ctx context.Context, head segno.Head, session segno.SessionID) (*segno.Link, error) {
	if chains, ok := tx.Store.(segno.Chains); ok {
		for l, err := range chains.Chain(ctx, head.Thread) {
			if segno.KindOf(err) == segno.KindNotFound {
				break // the thread waits for the store, too
			}
			if err != nil || l.Session == session {
				return &l, err
			}
		}
	}
	return tx.linkOf(ctx, head, session)
}

// closeStale closes turns of this session, of agents that are gone and those that were
// interrupted, and returns those that go on beside the new one.
func (tx *txn) closeStale(ctx context.Context, p Prompt) (others []OpenTurn, err error) {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return nil, err
	}
	// The end of an interrupted turn separates its changes from those of background tasks.
	// After it, a background turn may keep the doubtful ones.
	background := slices.DeleteFunc(slices.Clone(turns), func(t OpenTurn) bool { return !t.InBackground() })
	turns = slices.DeleteFunc(turns, func(t OpenTurn) bool { return t.InBackground() })
	for _, t := range slices.Concat(turns, background) {
		t, open, err := tx.reread(ctx, t.Key)
		if err != nil {
			return nil, err
		}
		switch {
		case !open, t.Workspace != tx.Workspace.ID():
		case t.Ended != "" && (tx.isGone(t) || p.Source.Session != "" && t.Source.Session == p.Source.Session):
			if err := tx.checkBackground(ctx, t, false); err != nil {
				return nil, fmt.Errorf("record background work: %w", err)
			}
		case p.Source.Session != "" && t.Source.Session == p.Source.Session, tx.isGone(t), !t.InBackground() && tx.wasInterrupted(ctx, t):
			if err := tx.closeInterrupted(ctx, t); err != nil {
				return nil, err
			}
		default:
			works, err := tx.isWorking(ctx, t)
			if err != nil {
				return nil, err
			}
			if works {
				others = append(others, t)
			}
		}
	}
	return others, nil
}

// reread returns an open turn as the spool has it now, and whether it is still open. The
// end of one turn may amend the checkpoint that another one began on or ended with.
func (tx *txn) reread(ctx context.Context, key segno.TurnKey) (t OpenTurn, open bool, err error) {
	turns, err := tx.Spool.Turns(ctx)
	if i := slices.IndexFunc(turns, func(t OpenTurn) bool { return t.Key == key }); err == nil && i >= 0 {
		return turns[i], true, nil
	}
	return t, false, err
}

// CloseAbandonedTurns ends, as interrupted, the open turns of the workspace whose agent's
// process is gone, and applies deferred commits, so that their changes are recorded before
// another agent continues.
func (tl *Timeline) CloseAbandonedTurns(ctx context.Context) error {
	turns, err := tl.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	waiting, err := tl.Spool.Waiting(ctx)
	if err != nil {
		return err
	}
	gone := func(t OpenTurn) bool { return t.Workspace == tl.Workspace.ID() && tl.isGone(t) }
	if len(waiting) == 0 && !slices.ContainsFunc(turns, gone) {
		return nil
	}
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	if _, err := tx.closeStale(ctx, Prompt{}); err != nil {
		return err
	}
	return tx.stuck
}

// CloseThreadTurns ends, as interrupted, the open turns that ran under the lease of a thread,
// whose holder calls it: their ends could not be recorded. Until they are, the thread's
// head lacks them.
func (tl *Timeline) CloseThreadTurns(ctx context.Context, thread segno.ThreadID) error {
	left := func(t OpenTurn) bool {
		return t.Workspace == tl.Workspace.ID() && t.Thread == thread && t.Owner != "" && t.Ended == ""
	}
	turns, err := tl.Spool.Turns(ctx)
	if err != nil || !slices.ContainsFunc(turns, left) {
		return err
	}
	tx, err := tl.lockForRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	for _, t := range turns {
		t, open, err := tx.reread(ctx, t.Key)
		if err != nil {
			return err
		}
		if !open || !left(t) {
			continue
		}
		if err := tx.closeInterrupted(ctx, t); err != nil {
			return err
		}
	}
	return tx.stuck
}

// closeInterrupted ends a turn whose agent will not end it. A turn that cannot be recorded
// is set aside, so that it does not block later turns.
func (tx *txn) closeInterrupted(ctx context.Context, t OpenTurn) error {
	if _, err := tx.end(ctx, TurnEnd{Key: t.Key, Interrupted: true, Late: true}, t); err != nil {
		return tx.setAside(ctx, t.Key, fmt.Errorf("close interrupted turn: %w", err))
	}
	return nil
}

// setAside sets a turn aside that could not be recorded, and keeps the reason for the
// user. It returns err if another attempt may succeed; the turn then stays in the spool.
func (tx *txn) setAside(ctx context.Context, key segno.TurnKey, err error) error {
	switch segno.KindOf(err) {
	case segno.KindBusy, segno.KindCancelled, segno.KindIO:
		return err
	}
	tx.stuck = errors.Join(tx.stuck, fmt.Errorf("a turn could not be recorded and was set aside: %w", err))
	return tx.Spool.SetAside(ctx, key)
}

func (tl *Timeline) isGone(t OpenTurn) bool { return t.PID != 0 && !tl.Alive(t.PID, t.PIDStart) }

// AppendEntry records one entry of an open turn. It is one write: no database, no lock.
func (tl *Timeline) AppendEntry(ctx context.Context, key segno.TurnKey, e segno.Entry) error {
	return tl.Spool.Note(ctx, key, e)
}
