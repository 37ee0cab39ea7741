package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Requested is a move that a program asked for while a turn of the thread was open, such as the agent of that turn. It is
// made once the turn has ended; see [Timeline.RequestMove].
type Requested struct {
	Operation segno.OperationID `json:"operation"` // the id that the move gets in the operation log
	Workspace segno.WorkspaceID `json:"workspace"`
	Thread    segno.ThreadID    `json:"thread"`
	Key       segno.TurnKey     `json:"key"` // of the turn that it waits for
	Actor     string            `json:"actor,omitempty"`
	Time      time.Time         `json:"time"`

	Verb  segno.Verb     `json:"verb"`
	Turn  int            `json:"turn,omitempty"` // undo: the oldest turn to undo
	To    segno.CommitID `json:"to,omitempty"`   // restore: the checkpoint
	Name  string         `json:"name,omitempty"` // its name
	Scope Scope          `json:"scope,omitempty"`
	Paths [][]byte       `json:"paths,omitempty"` // not text, because a path may not be UTF-8
}

// String returns the command line of the move.
func (q *Requested) String() string {
	text := string(q.Verb) + " " + q.Name
	if q.Scope == ScopeChat || q.Scope == ScopeFiles {
		text += " --" + string(q.Scope)
	}
	if len(q.Paths) > 0 {
		text += " --"
	}
	for _, path := range q.Paths {
		text += " " + segno.QuotePath(string(path))
	}
	return text
}

func (q *Requested) request() MoveRequest {
	ask := MoveRequest{Verb: q.Verb, Thread: q.Thread, Turn: q.Turn, To: q.To, Name: q.Name, Scope: q.Scope, Operation: q.Operation}
	for _, path := range q.Paths {
		ask.Paths = append(ask.Paths, string(path))
	}
	return ask
}

// TurnOpenError is the cause of the [segno.KindRefused] of a move while a turn is open.
type TurnOpenError struct{ Turn OpenTurn }

func (e *TurnOpenError) Error() string {
	return fmt.Sprintf("a turn of %s (%s, pid %d) is open", e.Turn.Agent, e.Turn.describe(), e.Turn.PID)
}

// RequestMove records an undo or a restore of a thread whose turn is open. The move is durable on return, and is made once,
// after the turn has ended: by [Timeline.EndTurn], or by the next prompt or move in the workspace if EndTurn could not
// make it. It is dropped if the turn was interrupted, or if the thread has moved since the turn. The turns are fixed now: an
// undo of one turn is of the newest turn that has ended, together with the open one.
//
// The same operation can be requested twice. A thread has one requested move at a time. An undo of some turns alone, a move
// of parts and a restore of a point cannot wait.
func (tl *Timeline) RequestMove(ctx context.Context, ask MoveRequest) (*Requested, error) {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	i := slices.IndexFunc(tx.turns, func(t OpenTurn) bool {
		return t.Workspace == tx.Workspace.ID() && t.Thread == ask.Thread && !t.InBackground()
	})
	if i < 0 {
		return nil, segno.Errorf(segno.KindConflict, string(ask.Verb), string(ask.Thread), "the turn has ended in the meantime").WithHint("ask again")
	}
	turn := tx.turns[i] // the plan may close other turns
	if turn.commitsSteps() {
		return nil, segno.NewError(segno.KindRefused, string(ask.Verb), tx.Workspace.Root(), &TurnOpenError{turn}).WithHint("wait for it to end")
	}
	if err := tx.refuseRepeated(ctx, ask); err != nil {
		return nil, err
	}
	all, err := tx.Spool.ListRequested(ctx, tx.Workspace.ID())
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		switch {
		case q.Thread == ask.Thread && q.Operation == ask.Operation:
			return &q, nil
		case q.Thread == ask.Thread:
			return nil, segno.Errorf(segno.KindConflict, string(ask.Verb), string(ask.Thread), "another move waits for the end of the turn: %s", q.String()).
				WithHint("cancel that one with 'segno op cancel " + shortID(q.Operation) + "' first")
		}
	}
	q, err := tx.planRequested(ctx, ask)
	if err != nil {
		return nil, err
	}
	q.Key = turn.Key
	return q, tx.Spool.KeepRequested(ctx, *q)
}

// planRequested fixes the turns or the checkpoint of a requested move, and returns the error that the move would have now.
func (tx *txn) planRequested(ctx context.Context, ask MoveRequest) (*Requested, error) {
	if ask.Verb != segno.VerbUndo && ask.Verb != segno.VerbRestore || ask.Force {
		return nil, segno.Errorf(segno.KindRefused, string(ask.Verb), string(ask.Thread), "it cannot wait for the end of the open turn, which begins a new line").
			WithHint("restore the checkpoint by its name instead")
	}
	if len(ask.Only) > 0 || ask.Parts != nil || ask.Steps || ask.Point > 0 { // the spool keeps none of these
		return nil, segno.Errorf(segno.KindRefused, string(ask.Verb), string(ask.Thread), "only a move of whole turns, of a checkpoint or of paths can wait for the end of a turn").
			WithHint("ask for it after the turn")
	}
	ask.WhileRunning = true
	p, now, err := tx.plan(ctx, ask)
	if err == nil {
		err = tx.keepStaged(ctx, now.staged)
	}
	if err != nil {
		return nil, err
	}
	q := &Requested{Operation: p.Operation, Workspace: p.Workspace, Thread: p.Thread, Actor: tx.Actor, Time: p.Made, Verb: ask.Verb, To: ask.To, Name: ask.Name}
	if ask.Verb == segno.VerbUndo {
		q.Turn = slices.Min(p.Turns)
		q.Name = fmt.Sprintf("t%d", q.Turn)
	} else {
		q.Scope = ask.Scope
	}
	for _, path := range ask.Paths {
		q.Paths = append(q.Paths, []byte(path))
	}
	return q, nil
}

// CancelRequested drops a requested move. The error has [segno.KindNotFound] if there is none with the id, because it was
// made, or dropped.
func (tl *Timeline) CancelRequested(ctx context.Context, q Requested) error {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	all, err := tx.Spool.ListRequested(ctx, tx.Workspace.ID())
	if err != nil {
		return err
	}
	done, err := tx.operationByID(ctx, q.Operation) // prepareMove may have completed it
	if err != nil {
		return err
	}
	if done != nil || !slices.ContainsFunc(all, func(x Requested) bool { return x.Operation == q.Operation }) {
		return segno.Errorf(segno.KindNotFound, "op cancel", string(q.Operation), "it no longer waits").WithHint("run 'segno op log'")
	}
	return tx.Spool.ClearRequested(ctx, q)
}

// requestedResult is what makeRequested did.
type requestedResult struct {
	made      bool   // it made a move
	text      string // a line for the user about each move that it made or dropped
	completed *Plan  // the interrupted move that it completed first, or nil
}

// makeRequested makes the requested moves of the workspace that have no turn to wait for, and drops those that may not be
// made any more. A move that fails for now stays, and so do all while the store is busy.
func (tl *Timeline) makeRequested(ctx context.Context) (r requestedResult, err error) {
	all, err := tl.Spool.ListRequested(ctx, tl.Workspace.ID())
	if len(all) == 0 || err != nil {
		return r, err
	}
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return r, err
	}
	defer tx.unlock()
	r.completed = tx.completed
	if all, err = tx.Spool.ListRequested(ctx, tl.Workspace.ID()); err != nil { // again, under the lock
		return r, err
	}
	for _, q := range all {
		moved, why, err := tx.makeOne(ctx, &q)
		switch {
		case moved != nil:
			r.text = joinWarnings(r.text, q.report(moved))
		case why != "":
			r.text = joinWarnings(r.text, fmt.Sprintf("segno: '%s', which %s requested, was not made: %s", q.String(), q.Actor, why))
		}
		if r.made = r.made || moved != nil; err != nil {
			return r, fmt.Errorf("make the requested %s: %w", q.Verb, err)
		}
	}
	return r, nil
}

// makeRequestedOrWarn is makeRequested for a caller that records a turn: text also has the error.
func (tl *Timeline) makeRequestedOrWarn(ctx context.Context) (text string) {
	r, err := tl.makeRequested(ctx)
	if err != nil {
		return joinWarnings(r.text, "segno: a requested move still waits: "+err.Error())
	}
	return r.text
}

// makeOne makes one requested move, or returns why it is dropped. It does neither while the move waits.
func (tx *txn) makeOne(ctx context.Context, q *Requested) (moved *MoveResult, why string, err error) {
	done, err := tx.operationByID(ctx, q.Operation) // the process ended before it cleared the request
	if done != nil {
		return nil, "", tx.Spool.ClearRequested(ctx, *q)
	}
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(tx.turns, func(t OpenTurn) bool { return t.HasKey(q.Key) && !t.InBackground() })
	switch {
	case i < 0:
		why, err = tx.whyDropped(ctx, q)
	case tx.isGone(tx.turns[i]):
		why = "the agent ended before its turn did"
	default:
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if why == "" {
		plain := tx.Timeline
		tx.Timeline = plain.WithActor(q.Actor)
		moved, err = tx.move(ctx, q.request(), nil)
		tx.Timeline = plain
		switch segno.KindOf(err) {
		case segno.KindInvalid, segno.KindNotFound, segno.KindCorrupt, segno.KindConflict: // it would fail again
			moved, why, err = nil, err.Error(), nil
		}
		if err != nil {
			return nil, "", err
		}
	}
	return moved, why, tx.Spool.ClearRequested(ctx, *q)
}

// whyDropped returns why a requested move whose turn is not open may not be made, or "". The turn must be the newest one of
// its thread, and must have ended normally: a user who interrupts the turn, prompts again, or moves the thread has decided otherwise.
func (tx *txn) whyDropped(ctx context.Context, q *Requested) (string, error) {
	s, err := tx.threadState(ctx, q.Thread)
	if segno.KindOf(err) == segno.KindNotFound {
		return "the thread was deleted", nil
	}
	if err != nil {
		return "", err
	}
	line, err := tx.line(ctx, s.head.Head)
	if err != nil {
		return "", err
	}
	for _, c := range line {
		switch {
		case c.Kind == segno.CheckpointExternal || c.Kind == segno.CheckpointSave:
		case c.Key != q.Key || c.Kind != segno.CheckpointTurn:
			return "the thread has moved since", nil
		case c.Interrupted:
			return "the turn was interrupted", nil
		default:
			return "", nil
		}
	}
	return "the thread has moved since", nil
}

// report tells the user about a requested move that was made.
func (q *Requested) report(m *MoveResult) string {
	text := fmt.Sprintf("segno: made '%s', which %s requested: %s written", q.String(), q.Actor, count(m.Files, "file"))
	if n := len(m.Plan.Conflicts); n > 0 {
		text += fmt.Sprintf(", %s ('segno diff --conflicts')", count(n, "conflict"))
	}
	if m.Link != nil {
		text += "; to go on from there, end this session and run: " + strings.Join(m.Run, " ")
	}
	return text + "; 'segno op undo' undoes it"
}

// refuseAfterRequested makes the requested moves that wait for no turn. If it made one, or if it completed a move for which
// [Plan.CheckRepeated] refuses ask, the error keeps the caller from a move that the user decided on before.
func (tl *Timeline) refuseAfterRequested(ctx context.Context, ask MoveRequest) error {
	r, err := tl.makeRequested(ctx)
	switch {
	case segno.KindOf(err) == segno.KindCancelled:
		return err
	case !r.made:
		return r.completed.CheckRepeated(ask) // the caller's move reports err again, or succeeds
	}
	return segno.NewError(segno.KindConflict, string(ask.Verb), tl.Workspace.Root(), errors.New(strings.TrimPrefix(r.text, "segno: "))).
		WithHint("run the command again if you still want it")
}
