package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// TurnEnd is the end of a turn.
type TurnEnd struct {
	Key         segno.TurnKey
	Interrupted bool
	Message     string // the agent's last words, or ""
	// Late says that the turn ended some time ago, without an event: what changed since
	// then is told from what the turn did. Ended is when at the latest, if that is
	// known.
	Late  bool
	Ended time.Time
	// Tasks are what the turn started that goes on in the background.
	Tasks []Task
	// Queued is how many of the messages that the user added wait in the agent's queue:
	// they are the next turn's.
	Queued int
	// Source replaces the open turn's when the agent has said more of it since.
	Source segno.Source
	Agent  string
	// Settle, if set, is called once the files are scanned and before the
	// transcript is read. It waits until the agent has written its last line,
	// somewhere after the offset since.
	Settle func(ctx context.Context, src segno.Source, since int64)
	// Warn, if set, is called with what the user should know of the recorded turn.
	Warn func(text string)
}

// EndTurn closes a turn: one commit makes its entries, its checkpoint, its objects
// and the new head durable, and only then is the open turn forgotten. A second
// end of the same turn amends it. An end whose beginning was not seen still makes
// a turn, from the state the workspace was last known in, unless the agent was not
// prompted since the newest: then it returns no checkpoint.
func (tl *Timeline) EndTurn(ctx context.Context, e TurnEnd) (*segno.Checkpoint, error) {
	if e.Key == "" || e.Source.Session == "" {
		return nil, segno.Errorf(segno.KindInvalid, "end turn", "", "it needs a key and a session")
	}
	r, err := tl.lockForRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer r.unlock()
	turn, err := r.openTurn(ctx, e)
	if err != nil {
		return nil, err
	}
	c, err := r.end(ctx, e, turn)
	if err == nil {
		err = r.stuck
	}
	return c, err
}

func (r *txn) openTurn(ctx context.Context, e TurnEnd) (OpenTurn, error) {
	turns, err := r.Spool.Turns(ctx)
	if err != nil {
		return OpenTurn{}, err
	}
	for _, t := range turns {
		if t.HasKey(e.Key) || t.Queued && t.Source.Session == e.Source.Session && t.Workspace == r.Workspace.ID() {
			return t, nil
		}
	}
	t := OpenTurn{Key: e.Key, Agent: e.Agent, Source: e.Source, Workspace: r.Workspace.ID()}
	if t.Thread, err = r.threadWithDeferred(ctx, e.Source.Session); err != nil {
		return OpenTurn{}, err
	}
	t.Before, err = r.lastSnapshot(ctx)
	return t, err
}

// end does the work of End for a site that is locked.
func (r *txn) end(ctx context.Context, e TurnEnd, turn OpenTurn) (*segno.Checkpoint, error) {
	if turn.commitsSteps() {
		return nil, r.Spool.Close(ctx, turn.Key) // what it did is in its steps, and it may go on
	}
	if turn.Ended != "" {
		return r.endBackground(ctx, e, turn)
	}
	if e.Source.Session != "" {
		turn.Source = e.Source
	}
	done, err := r.endOfTurn(ctx, turn.Key, turn.Source.Session)
	if err != nil {
		return nil, fmt.Errorf("look for the turn: %w", err)
	}
	if done != nil && !turn.Start.IsZero() && !done.Time.Before(turn.Start) {
		// The commit was made and the process ended before the spool was cleared.
		return done, r.Spool.Close(ctx, turn.Key)
	}
	if e.Interrupted && done != nil && !done.Interrupted {
		return done, r.Spool.Close(ctx, turn.Key) // it had its proper end already
	}
	if err := r.resolveThread(ctx, &turn); err != nil {
		return nil, err
	}
	if e.Late && e.Ended.IsZero() && !r.isGone(turn) {
		// An interruption ends the turn and not what it left in the background.
		noted, _, err := r.Spool.Entries(ctx, turn.Key)
		if err != nil {
			return nil, err
		}
		e.Tasks = startedTasks(noted)
		turn.Tasks = e.Tasks
	}
	unsure, err := r.attributeToBackground(ctx, &turn)
	if segno.KindOf(err) == segno.KindCancelled {
		return nil, err
	}
	r.stuck = errors.Join(r.stuck, err) // the turn itself may still be recorded
	if err := r.followAmendment(ctx, &turn); err != nil {
		return nil, err
	}
	batch := r.Store.Objects().Batch()
	defer batch.Close()
	after, err := r.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	present, doubt := after, []string(nil)
	if e.Late && turn.Before != nil && !turn.Start.IsZero() {
		known, err := r.activityOf(ctx, turn, e.Ended)
		if err != nil {
			return nil, fmt.Errorf("tell the turn's changes from later ones: %w", err)
		}
		if after, doubt, err = r.splitChanges(ctx, batch, known, *turn.Before, present); err != nil {
			return nil, fmt.Errorf("tell the turn's changes from later ones: %w", err)
		}
	}
	prev, err := r.previousPosition(ctx, turn)
	if err != nil {
		return nil, err
	}
	if e.Settle != nil {
		since, err := r.captureStart(ctx, done, prev)
		if err != nil {
			return nil, err
		}
		e.Settle(ctx, turn.Source, since)
	}
	got, err := r.capture(ctx, turn, prev, batch)
	if err != nil {
		return nil, err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("stage turn: %w", err)
	}
	w := &turnEnd{TurnEnd: e, turn: turn, after: after, present: present, doubt: append(doubt, unsure...), got: got, staged: joinStaged(turn.Staged, staged), amends: done}
	if w.entries, err = r.turnLog(ctx, w); err != nil {
		return nil, err
	}
	if w.isUnchanged() || w.isDuplicateEnd(prev) || w.wasWithdrawn() {
		return done, r.Spool.Close(ctx, turn.Key)
	}
	if err := r.resolveParent(ctx, w); err != nil {
		return nil, err
	}
	made, err := r.commitTurn(ctx, w)
	if err != nil || w.present.Tree == w.after.Tree {
		return made, err
	}
	return made, r.commitLaterChanges(ctx, w, made)
}

// commitLaterChanges commits what others changed since a turn ended, which its checkpoint does
// not hold.
func (r *txn) commitLaterChanges(ctx context.Context, w *turnEnd, made *segno.Checkpoint) error {
	head, at, err := r.headAndCheckpoint(ctx, made.Thread)
	if err != nil || at.ID != made.ID {
		return err // the turn is on another line than the present is
	}
	c, err := r.externalCommit(ctx, head, at, w.present, w.turn.Key)
	if err != nil {
		return err
	}
	if _, _, err := r.commitOrDefer(ctx, head, c); err != nil {
		return fmt.Errorf("commit changes after the turn: %w", err)
	}
	return nil
}

// turnEnd is an End under way.
type turnEnd struct {
	TurnEnd
	turn    OpenTurn
	after   segno.Snapshot // what the turn left
	present segno.Snapshot // what there is
	doubt   []string       // paths of the turn that someone else may have changed
	got     segno.Captured
	staged  segno.Staged
	entries []segno.Entry
	noted   int               // entries since the turn began, or since it was ended before
	name    string            // see [Adoption]
	amends  *segno.Checkpoint // the checkpoint of an earlier end of the same turn

	head   segno.Head
	parent *segno.Checkpoint
}

// isUnchanged reports whether a turn that is ended again is what it was.
func (w *turnEnd) isUnchanged() bool {
	d := w.amends
	return d != nil && w.noted == 0 && d.Interrupted == w.Interrupted && d.Tree() == w.after.Tree && d.Session != nil && d.Session.Offset == w.got.Position.Offset
}

// isDuplicateEnd reports whether the end is told late, of a turn that somebody else has
// recorded: nobody saw it begin, and since the session's newest turn nothing was
// prompted, called or changed.
func (w *turnEnd) isDuplicateEnd(prev *segno.Position) bool {
	seen := w.amends != nil || !w.turn.Start.IsZero()
	if seen || prev == nil || w.got.Prompt != "" || len(w.got.Damage) > 0 || w.turn.Before == nil || w.turn.Before.Tree != w.after.Tree {
		return false
	}
	return !slices.ContainsFunc(w.entries, func(e segno.Entry) bool { return e.Kind == segno.EntryIntent || e.Kind == segno.EntryResult })
}

// wasWithdrawn reports whether a queued prompt was taken out of the queue again.
func (w *turnEnd) wasWithdrawn() bool {
	return w.turn.Queued && w.Late && w.noted == 0 && w.turn.Before.Tree == w.after.Tree
}

// startTime is when the turn began. Commits that come before the turn's own carry it,
// so that an end repeated after a crash makes the same ones again.
func (w *turnEnd) startTime(now time.Time) time.Time {
	if w.turn.Start.IsZero() {
		return now
	}
	return w.turn.Start
}

func (r *txn) commitTurn(ctx context.Context, w *turnEnd) (*segno.Checkpoint, error) {
	id := segno.CommitID(segno.DerivedID("turn", string(w.turn.Key), string(w.head.Thread)))
	turn := w.head.Turn + 1
	cp := &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: turn, Time: r.Now(), Agent: w.turn.Agent, Prompt: w.turn.Prompt,
		Key: w.turn.Key, Interrupted: w.Interrupted, Session: &w.got.Position, Workspace: &w.after}
	if w.amends != nil {
		id = segno.CommitID(segno.DerivedID("amend", string(w.amends.ID)))
		cp.Turn, cp.Amends, cp.Prompt = w.amends.Turn, w.amends.ID, w.amends.Prompt
	}
	var err error
	if cp.Shared, err = r.shared(ctx, w); err != nil {
		return nil, err
	}
	if cp.Files, err = r.count(ctx, w.parent.Tree(), w.after.Tree); err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	for i := range w.entries {
		w.entries[i].Turn = cp.Turn
	}
	cp.Shell = shellCalls(w.entries, w.turn.hasAllResults(cp))
	c := segno.Commit{ID: id, Thread: w.head.Thread, Parent: w.parent.ID, Expect: w.head.Head, Epoch: w.head.Epoch,
		Entries: w.entries, Checkpoint: cp, Staged: w.staged, Workspace: r.workspaceStateAfter(w.head.Thread, id, &w.after)}
	if w.amends != nil && w.head.Head != w.amends.ID {
		c.Move = &segno.Move{Head: w.head.Head, Tip: w.head.Tip} // the thread moved on meanwhile
	}
	if w.head.Link.Session != w.turn.Source.Session {
		c.Link = r.newLink(w.turn, "start", w.parent.ID)
	}
	_, made, err := r.commitOrDefer(ctx, w.head, c)
	if err != nil {
		return nil, fmt.Errorf("commit turn: %w", err)
	}
	if text := coverageWarning(w.turn.Before, cp); text != "" && w.Warn != nil {
		w.Warn(text)
	}
	return made, r.keepOpenForTasks(ctx, w, made)
}

func (s *txn) newLink(t OpenTurn, reason string, at segno.CommitID) *segno.Link {
	return &segno.Link{Agent: t.Agent, Session: t.Source.Session, Dir: t.Source.Dir, Path: t.Source.Path,
		Start: s.Now(), Reason: reason, Fidelity: segno.FidelityNative, At: at}
}

// hasAllResults reports whether each call of a turn has a result if it was made: hooks report
// both ends of a call before the agent goes on, and end says whether the turn
// ended as it should. Of an agent that the caller watches by other means that is not known.
func (t *OpenTurn) hasAllResults(end *segno.Checkpoint) bool {
	return t.Owner == "" && !end.Interrupted
}

// isShell reports whether a tool runs commands: by the names that Claude Code and
// Codex give it, or by the kind that the Agent Client Protocol does.
func isShell(tool string) bool {
	switch tool {
	case "Bash", "exec_command", "shell", "execute":
		return true
	}
	return false
}
