package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// TurnEnd is the end of a turn.
type TurnEnd struct {
	Key         segno.TurnKey
	Interrupted bool
	Message     string // the agent's last message, or ""
	// Late is set if the turn ended some time ago without an event. The turn's tool calls then
	// distinguish its changes from later ones. Ended is the latest possible end, or zero.
	Late  bool
	Ended time.Time
	// Tasks are the turn's background tasks that are still running.
	Tasks []Task
	// Queued is the number of messages that the user added and that still wait in the agent's queue. They
	// belong to the next turn.
	Queued int
	// Source replaces the source of the open turn, if the agent reported more about it since then.
	Source segno.Source
	Agent  string
	Process
	// AwaitTranscript, if set, is called after the files are scanned and before the transcript is read.
	// It waits until the agent has written its last line, somewhere after the offset since.
	AwaitTranscript func(ctx context.Context, src segno.Source, since int64)
	// Warn, if set, is called with each message for the user about the recorded turn, and about moves that it requested.
	Warn func(text string)
}

// EndTurn closes a turn. One commit makes its entries, its checkpoint, its objects and the new head
// durable; then the open turn is deleted from the spool. Other commits may precede it: the base of a new
// thread, the turns of a session that is older than its thread, and changes made before the turn. They
// are idempotent: if the process ends between two commits, the next end of the turn makes the remaining
// ones. Another commit may follow it, with the changes that others made while the turn ran or after it.
// A second end of the same turn amends it. A turn whose beginning was not recorded begins with the newest known state of
// the workspace. If the agent was not prompted since its newest turn, there is no such turn, and EndTurn
// returns no checkpoint.
//
// EndTurn then makes the moves that were requested for the end of the turn. If one of them fails, the turn is recorded all the
// same, and Warn gets the error.
func (tl *Timeline) EndTurn(ctx context.Context, e TurnEnd) (*segno.Checkpoint, error) {
	c, err := tl.endTurn(ctx, e)
	if err != nil {
		return c, err
	}
	if text := tl.makeRequestedOrWarn(ctx); text != "" && e.Warn != nil {
		e.Warn(text)
	}
	return c, nil
}

func (tl *Timeline) endTurn(ctx context.Context, e TurnEnd) (*segno.Checkpoint, error) {
	if e.Key == "" || e.Source.Session == "" {
		return nil, segno.Errorf(segno.KindInvalid, "end turn", "", "it needs a key and a session")
	}
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	turn, err := tx.turnToEnd(ctx, e)
	if err != nil {
		return nil, err
	}
	c, err := tx.end(ctx, e, turn)
	if err == nil {
		err = tx.pendingErr
	}
	return c, err
}

// turnToEnd returns the open turn that e ends, or makes one if its beginning was not recorded. A running turn takes precedence over
// one in the background that has the same key.
func (tx *txn) turnToEnd(ctx context.Context, e TurnEnd) (OpenTurn, error) {
	isIts := func(t OpenTurn) bool {
		return t.HasKey(e.Key) || t.RunsQueued() && t.Source.Session == e.Source.Session && t.Workspace == tx.Workspace.ID()
	}
	for _, background := range []bool{false, true} {
		for _, t := range tx.turns {
			if t.InBackground() == background && isIts(t) {
				return t, nil
			}
		}
	}
	return tx.unreported(ctx, Prompt{Key: e.Key, Agent: e.Agent, Source: e.Source})
}

// turnEnd is the state of the end of a turn while EndTurn records it. Its stages run in the order of
// [txn.end].
type turnEnd struct {
	TurnEnd
	turn  OpenTurn
	name  string            // see [Adoption]
	done  *segno.Checkpoint // of an earlier end of the same turn, or nil
	batch segno.Batch

	after   segno.Snapshot  // the workspace at the end of the turn
	present segno.Snapshot  // the workspace now, including the changes that others made during the turn or after it
	doubt   []string        // paths of the turn that another author may have changed
	others  []string        // paths that others changed while a turn of another thread ran, too
	unnamed []string        // paths that changed while a command of the turn ran, in another way than its tools show
	whyAll  string          // why changes of others cannot be distinguished from the turn's, or ""
	prev    *segno.Position // the position at which the newest capture of the session ended
	got     segno.Captured
	staged  segno.Staged
	entries []segno.Entry
	noted   int             // the number of entries since the turn began, or since its previous end
	shell   int             // the number of commands among the entries
	touched ownership.Times // when the changed paths last changed, if that is known
	points  segno.Hash
	unseen  *unseenTurn

	head   segno.Head
	parent *segno.Checkpoint
}

// end records the end of a turn. The caller must hold the workspace's lock.
func (tx *txn) end(ctx context.Context, e TurnEnd, turn OpenTurn) (*segno.Checkpoint, error) {
	switch {
	case turn.commitsSteps():
		return nil, tx.closeTurn(ctx, turn.Key) // its steps contain its changes, and the turn may continue
	case turn.Ended != "":
		return tx.endBackground(ctx, e, turn)
	}
	if again, isIts, err := tx.reopenToEnd(ctx, e, turn); err != nil || isIts {
		if err != nil {
			return nil, err
		}
		return tx.endBackground(ctx, e, again)
	}
	turn.Source = cmp.Or(e.Source, turn.Source)
	return tx.record(ctx, &turnEnd{TurnEnd: e, turn: turn})
}

// record records the end of a turn that is not in the background.
func (tx *txn) record(ctx context.Context, w *turnEnd) (*segno.Checkpoint, error) {
	w.batch = tx.Store.Objects().Batch()
	defer w.batch.Close()
	if recorded, err := tx.findEarlierEnd(ctx, w); err != nil || recorded {
		return w.done, err
	}
	for _, stage := range []func(context.Context, *turnEnd) error{
		tx.assignThread,
		tx.addRunningCommands,
		tx.attributeBesideTurn,
		tx.snapshotAfterTurn,
		tx.captureTranscript,
		tx.savePoints,
		tx.stageObjects,
		tx.collectEntries,
	} {
		if err := stage(ctx, w); err != nil {
			return nil, err
		}
	}
	if w.hasNothingNew() {
		return w.done, tx.closeTurn(ctx, w.turn.Key)
	}
	if err := tx.resolveParent(ctx, w); err != nil {
		return nil, err
	}
	made, err := tx.commitTurn(ctx, w)
	if err != nil || w.present.Equals(&w.after) {
		return made, err
	}
	return made, tx.commitLaterChanges(ctx, w, made)
}

// findEarlierEnd looks for a checkpoint of the same turn. If nothing is left to record, it
// closes the turn and returns true.
func (tx *txn) findEarlierEnd(ctx context.Context, w *turnEnd) (recorded bool, err error) {
	w.done, err = tx.recordedEnd(ctx, w.turn)
	if err != nil || w.done == nil {
		return false, err
	}
	if w.turn.isCommittedAs(w.done) || w.Interrupted && !w.done.Interrupted {
		return true, tx.closeTurn(ctx, w.turn.Key)
	}
	return false, nil
}

// recordedEnd returns the newest checkpoint with the key of a turn, or nil.
func (tx *txn) recordedEnd(ctx context.Context, t OpenTurn) (*segno.Checkpoint, error) {
	// Match the session, too, because the key comes from the agent and may not be unique.
	return tx.newest(ctx, segno.CheckpointQuery{Key: t.Key, Session: t.Source.Session})
}

// isCommittedAs reports whether done, a checkpoint with the turn's key or nil, is the turn's own and not
// an earlier turn's with the same key. A process may have ended between the commit of the turn and its
// deletion from the spool.
func (t *OpenTurn) isCommittedAs(done *segno.Checkpoint) bool {
	return done != nil && !t.Start.IsZero() && !done.Time.Before(t.Start)
}

// assignThread finds the thread of a turn that began without one. After an interruption it also finds the
// background tasks of the turn that continue.
func (tx *txn) assignThread(ctx context.Context, w *turnEnd) error {
	if err := tx.resolveThread(ctx, &w.turn); err != nil {
		return err
	}
	if !w.Late || !w.Ended.IsZero() || tx.isGone(w.turn) {
		return nil
	}
	noted, _, err := tx.Spool.Entries(ctx, w.turn.Key)
	if err != nil {
		return err
	}
	w.Tasks = startedTasks(noted)
	w.turn.Tasks = w.Tasks
	return nil
}

// attributeBesideTurn attributes changes to background work of earlier turns. If that fails, the turn
// itself is still recorded.
func (tx *txn) attributeBesideTurn(ctx context.Context, w *turnEnd) error {
	unsure, err := tx.attributeToBackground(ctx, &w.turn)
	if segno.KindOf(err) == segno.KindCancelled {
		return err
	}
	w.doubt = unsure
	tx.pendingErr = errors.Join(tx.pendingErr, err)
	return tx.followAmendment(ctx, &w.turn)
}

// snapshotAfterTurn saves the workspace. It excludes the changes of others from the state that the turn
// left.
func (tx *txn) snapshotAfterTurn(ctx context.Context, w *turnEnd) (err error) {
	if w.present, err = tx.Workspace.SnapshotWatched(ctx, w.batch); err != nil {
		return fmt.Errorf("snapshot workspace: %w", err)
	}
	w.after = w.present
	if w.turn.Before == nil {
		return nil
	}
	var known *ownership.Evidence
	if w.Late && !w.turn.Start.IsZero() {
		known, w.whyAll, err = tx.evidenceOfLate(ctx, w.turn, w.Ended)
	} else {
		known, err = tx.evidenceOf(ctx, w)
	}
	if err != nil {
		return err
	}
	return tx.splitChanges(ctx, w, known)
}

// captureTranscript waits until the agent has written its last line, and adds the new records to
// the batch.
func (tx *txn) captureTranscript(ctx context.Context, w *turnEnd) (err error) {
	if w.prev, err = tx.previousPosition(ctx, w.turn); err != nil {
		return err
	}
	if w.AwaitTranscript != nil {
		since, err := tx.captureStart(ctx, w.done, w.prev)
		if err != nil {
			return err
		}
		w.AwaitTranscript(ctx, w.turn.Source, since)
	}
	if err := tx.loadTurns(ctx); err != nil { // w.AwaitTranscript may have waited for seconds
		return err
	}
	if w.unseen != nil {
		return tx.captureUnseen(ctx, w)
	}
	w.got, err = tx.capture(ctx, w.turn, w.prev, w.batch)
	return err
}

// stageObjects ends the batch: on return, the large objects of the turn are in a synced pack. The turn's
// commit refers to the pack. Without that commit, the pack is an orphan.
func (tx *txn) stageObjects(ctx context.Context, w *turnEnd) error {
	staged, err := w.batch.Stage(ctx)
	if err != nil {
		return fmt.Errorf("stage turn: %w", err)
	}
	w.staged = joinStaged(w.turn.Staged, staged)
	return nil
}

// collectEntries collects the turn's entries from the spool and the transcript.
func (tx *txn) collectEntries(ctx context.Context, w *turnEnd) (err error) {
	w.entries, err = tx.turnLog(ctx, w)
	w.shell = shellCalls(w.entries, w.turn.hasAllResults(w.Interrupted))
	return err
}

// commitLaterChanges commits the changes that others made while a turn ran or after it ended. The turn's
// checkpoint does not contain them.
func (tx *txn) commitLaterChanges(ctx context.Context, w *turnEnd, made *segno.Checkpoint) error {
	s, err := tx.threadState(ctx, made.Thread)
	if err != nil || s.at.ID != made.ID {
		return err // the turn is on another line than the current state
	}
	if _, err := tx.commitExternal(ctx, s, w.present, segno.Staged{}, w.turn.Key); err != nil {
		return fmt.Errorf("commit changes of others: %w", err)
	}
	return nil
}

// hasNothingNew reports whether there is nothing to record about the turn.
func (w *turnEnd) hasNothingNew() bool {
	unchanged := w.turn.Before.Equals(&w.after)
	switch d := w.done; {
	case w.unseen != nil && w.got.Prompt == "":
		return true // the end of the turn that is running now records both
	case w.turn.Queued && w.Late && w.noted == 0 && unchanged:
		return true // the user removed the prompt from the queue
	case d != nil:
		return w.noted == 0 && d.Interrupted == w.Interrupted && d.Workspace.Equals(&w.after) &&
			d.Session != nil && d.Session.Offset == w.got.Position.Offset
	}
	return unchanged && w.isDuplicate()
}

// isDuplicate reports whether another process has already recorded the end of a turn that changed no
// file: the spool does not have its beginning, and since the session's newest turn there was no prompt
// and no call.
func (w *turnEnd) isDuplicate() bool {
	isCall := func(e segno.Entry) bool { return e.Kind == segno.EntryIntent || e.Kind == segno.EntryResult }
	return w.turn.Start.IsZero() && w.prev != nil && w.got.Prompt == "" && len(w.got.Damage) == 0 && !slices.ContainsFunc(w.entries, isCall)
}

// startTime returns when the turn began. Commits that precede the turn's own have this time, so that an
// end repeated after a crash makes the same commits again.
func (w *turnEnd) startTime(now time.Time) time.Time {
	if w.turn.Start.IsZero() {
		return now
	}
	return w.turn.Start
}

func (tx *txn) commitTurn(ctx context.Context, w *turnEnd) (*segno.Checkpoint, error) {
	id := segno.CommitID(segno.DerivedID("turn", string(w.turn.Key), string(w.head.Thread)))
	turn := w.head.Turn + 1
	cp := &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: turn, Time: tx.Now(), Agent: w.turn.Agent, Prompt: w.turn.Prompt,
		Key: w.turn.Key, Interrupted: w.Interrupted, Session: &w.got.Position, Workspace: &w.after, Shell: w.shell, Points: w.points}
	if w.done != nil {
		id = segno.CommitID(segno.DerivedID("amend", string(w.done.ID)))
		cp.Turn, cp.Amends, cp.Prompt = w.done.Turn, w.done.ID, w.done.Prompt
	}
	var err error
	if cp.Shared, err = tx.overlapsAnother(ctx, &w.turn, w.head.Thread); err != nil {
		return nil, err
	}
	if cp.Files, err = tx.count(ctx, w.parent.Tree(), w.after.Tree); err != nil {
		return nil, err
	}
	for i := range w.entries {
		w.entries[i].Turn = cp.Turn
	}
	c := segno.Commit{ID: id, Thread: w.head.Thread, Parent: w.parent.ID, Expect: w.head.Head, Epoch: w.head.Epoch,
		Entries: w.entries, Checkpoint: cp, Staged: w.staged, Workspace: tx.workspaceStateAfter(w.head.Thread, id, &w.after)}
	if w.done != nil && w.head.Head != w.done.ID {
		c.Move = &segno.Move{Head: w.head.Head, Tip: w.head.Tip} // the thread has moved meanwhile
	}
	if w.head.Link.Session != w.turn.Source.Session {
		c.Link = tx.newLink(w.turn, "start", w.parent.ID)
	}
	made, err := tx.commitOrDefer(ctx, w.head, c)
	if err != nil {
		return nil, fmt.Errorf("commit turn: %w", err)
	}
	if text := joinWarnings(coverageWarning(w.turn.Before, cp), tx.unreadWarning(ctx, &w.after, w.turn.Before)); text != "" && w.Warn != nil {
		w.Warn(text)
	}
	return made.at, tx.keepOpenForTasks(ctx, w, made.at)
}

// keepOpenForTasks deletes an ended turn from the spool, unless some of its tasks still run.
func (tx *txn) keepOpenForTasks(ctx context.Context, w *turnEnd, made *segno.Checkpoint) error {
	turn := w.turn
	if len(w.Tasks) == 0 || turn.Start.IsZero() {
		return tx.closeTurn(ctx, turn.Key)
	}
	turn.Tasks, turn.Before, turn.Noted = w.Tasks, &w.present, turn.Noted+w.noted
	turn.Ended, turn.Awake, turn.Thread, turn.Note, turn.Staged = made.ID, false, made.Thread, "", segno.Staged{}
	return tx.saveTurn(ctx, turn)
}

// hasAllResults reports whether each call that the turn made has a result. Hooks report the beginning and
// the end of a call before the agent continues, so this is true if the turn ended normally. It is unknown
// for an agent that the caller observes by other means.
func (t *OpenTurn) hasAllResults(interrupted bool) bool {
	return t.Owner == "" && !interrupted
}
