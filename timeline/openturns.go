package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// CloseLeft records the open turns of the workspace after their agents exited or the user interrupted them, as each move does first. If there is no
// open turn, it takes no lock.
func (tl *Timeline) CloseLeft(ctx context.Context) error {
	isRunning := func(t OpenTurn) bool { return t.Workspace == tl.Workspace.ID() && !t.InBackground() }
	turns, err := tl.Spool.Turns(ctx)
	if err != nil || !slices.ContainsFunc(turns, isRunning) {
		return err
	}
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	for _, t := range tx.turns {
		if t, open := tx.openTurn(t.Key); open && isRunning(t) {
			if err := tx.closeTurnOrRefuse(ctx, t, MoveRequest{WhileRunning: true}); err != nil {
				return err
			}
		}
	}
	return nil
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

// closeTurnOrRefuse closes a running turn whose agent has exited or was interrupted. It returns an error if
// the agent is at work.
func (tx *txn) closeTurnOrRefuse(ctx context.Context, t OpenTurn, ask MoveRequest) error {
	if ended, err := tx.completeEnd(ctx, t, ask); ended || err != nil {
		return err
	}
	left, err := tx.isLeft(ctx, t)
	switch {
	case err != nil:
		return err
	case left || tx.isGone(t) || tx.isOver(ctx, t):
		return tx.closeInterrupted(ctx, t)
	case ask.WhileRunning:
		return nil
	}
	return segno.NewError(segno.KindRefused, string(ask.Verb), tx.Workspace.Root(), &TurnOpenError{t}).WithHint(hintRunning)
}

// lastHolder is the ability of a store to return the owner of a lease that was not released, although it has expired. The
// owner is "" if the lease was released, or if there was none.
type lastHolder interface {
	LastHolder(ctx context.Context, thread segno.ThreadID) (owner string, err error)
}

// isLeft reports whether a turn is open only because its process could not record the end. A process that holds the lease
// on the thread for a turn releases it when the turn ends. A lease that expired says nothing as long as the process is
// alive: the machine may have slept, so the process has not renewed it yet.
func (tx *txn) isLeft(ctx context.Context, t OpenTurn) (bool, error) {
	leaser, ok := tx.Store.(segno.Leaser)
	if !ok || t.Owner == "" || t.Ended != "" {
		return false, nil
	}
	held, err := leaser.LeaseOf(ctx, t.Thread)
	if last, ok := tx.Store.(lastHolder); ok && err == nil && held.Owner == "" && t.PID != 0 && !tx.isGone(t) {
		held.Owner, err = last.LastHolder(ctx, t.Thread)
	}
	return err == nil && held.Owner != t.Owner, err
}

// completeEnd completes the end of a turn whose process died after it committed the turn and before
// it removed the turn from the spool. The agent has sent its last event about the turn, so no later
// event would end the turn. A turn with newer entries has not ended: its agent continued. The clock may have stepped back since the commit,
// so a call that the commit lacks is newer, too.
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
	t.Tasks = startedTasks(tx.withUnreportedResults(ctx, &t, entries)) // the list from the last event is lost
	if err := tx.refuseTasks(t, entries, ask); err != nil {
		return false, err
	}
	recorded, err := tx.commitEntries(ctx, done.ID)
	if err != nil {
		return false, err
	}
	entries = tx.withoutEarlierCalls(ctx, &t, entries)
	isNewer := func(e segno.Entry) bool {
		isIt := func(r segno.Entry) bool { return r.Kind == e.Kind && r.ID == e.ID }
		isCall := (e.Kind == segno.EntryIntent || e.Kind == segno.EntryResult) && e.ID != ""
		return !isTaskEnd(e) && (e.Time.After(done.Time) || isCall && !slices.ContainsFunc(recorded, isIt))
	}
	if slices.ContainsFunc(entries, isNewer) {
		return false, nil
	}
	return true, tx.closeTurn(ctx, t.Key)
}

// endTasksOrRefuse closes a turn that has ended and whose tasks have, too. It returns an error if a task
// runs.
func (tx *txn) endTasksOrRefuse(ctx context.Context, t OpenTurn, ask MoveRequest) error {
	if err := tx.noteEndedCommands(ctx, &t); err != nil {
		return err
	}
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

// closeStale closes earlier turns of a prompt's session, turns whose agents have exited and turns
// that were interrupted. others reports whether other turns work at the same time as the new one. A
// turn that another living process runs in the same session counts as one of them, because agents
// do not lock sessions.
func (tx *txn) closeStale(ctx context.Context, p Prompt) (others bool, err error) {
	// End interrupted turns first: the end separates the changes of such a turn from those of
	// background tasks. Afterwards a background turn may keep the doubtful changes.
	running := slices.DeleteFunc(slices.Clone(tx.turns), func(t OpenTurn) bool { return t.InBackground() })
	background := slices.DeleteFunc(slices.Clone(tx.turns), func(t OpenTurn) bool { return !t.InBackground() })
	for _, t := range slices.Concat(running, background) {
		t, open := tx.openTurn(t.Key)
		if !open || t.Workspace != tx.Workspace.ID() {
			continue
		}
		works, err := tx.closeIfStale(ctx, p, t)
		if err != nil {
			return false, err
		}
		others = others || works
	}
	return others, nil
}

// closeIfStale closes a turn that the prompt p shows to be over, or whose agent has exited or was
// interrupted. A session that continues in another container was that of one which ended. works reports whether the turn continues at the same time as the new one.
func (tx *txn) closeIfStale(ctx context.Context, p Prompt, t OpenTurn) (works bool, err error) {
	isOther := t.PID != 0 && p.PID != 0 && t.PID != p.PID && t.Owner == "" && p.Owner == "" && !t.isElsewhere(p.Process)
	over := tx.isGone(t) || p.Source.Session != "" && t.Source.Session == p.Source.Session && !isOther
	switch {
	case over && t.Ended != "":
		return false, tx.checkBackground(ctx, t, false)
	case over, !t.InBackground() && tx.wasInterrupted(ctx, t):
		return false, tx.closeInterrupted(ctx, t)
	}
	return tx.isWorking(ctx, t)
}

// CloseAbandonedTurns ends the open turns of the workspace whose agents have exited, as
// interrupted, and applies deferred commits. The changes of these turns are thus recorded before
// another agent continues.
func (tl *Timeline) CloseAbandonedTurns(ctx context.Context) error {
	turns, err := tl.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	waiting, err := tl.Spool.ListDeferred(ctx)
	if err != nil {
		return err
	}
	gone := func(t OpenTurn) bool { return t.Workspace == tl.Workspace.ID() && tl.isGone(t) }
	if len(waiting) == 0 && !slices.ContainsFunc(turns, gone) {
		return nil
	}
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	if _, err := tx.closeStale(ctx, Prompt{}); err != nil {
		return err
	}
	return tx.pendingErr
}

// CloseThreadTurns ends, as interrupted, the open turns that ran under the lease of a thread and
// whose ends could not be recorded. The holder of the lease calls it, because until then the
// thread's head does not include these turns.
func (tl *Timeline) CloseThreadTurns(ctx context.Context, thread segno.ThreadID) error {
	left := func(t OpenTurn) bool {
		return t.Workspace == tl.Workspace.ID() && t.Thread == thread && t.Owner != "" && t.Ended == ""
	}
	turns, err := tl.Spool.Turns(ctx)
	if err != nil || !slices.ContainsFunc(turns, left) {
		return err
	}
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return err
	}
	defer tx.unlock()
	for _, t := range turns {
		if t, open := tx.openTurn(t.Key); open && left(t) {
			if err := tx.closeInterrupted(ctx, t); err != nil {
				return err
			}
		}
	}
	return tx.pendingErr
}

// closeInterrupted ends a turn whose agent will not end it. If the turn cannot be recorded,
// closeInterrupted sets it aside, so that it does not block later turns.
func (tx *txn) closeInterrupted(ctx context.Context, t OpenTurn) error {
	if _, err := tx.end(ctx, TurnEnd{Key: t.Key, Interrupted: true, Late: true}, t); err != nil {
		return tx.setAside(ctx, t.Key, fmt.Errorf("close interrupted turn: %w", err))
	}
	return nil
}

// setAside sets aside a turn that could not be recorded, and keeps the reason for the user. If
// another attempt may succeed, setAside returns err and the turn stays in the spool.
func (tx *txn) setAside(ctx context.Context, key segno.TurnKey, err error) error {
	switch segno.KindOf(err) {
	case segno.KindBusy, segno.KindCancelled, segno.KindIO:
		return err
	}
	tx.pendingErr = errors.Join(tx.pendingErr, fmt.Errorf("a turn could not be recorded and was set aside: %w", err))
	tx.replaceTurn(key)
	return tx.Spool.SetAside(ctx, key)
}

// isElsewhere reports whether two processes are known to run on different machines or in different containers.
func (p Process) isElsewhere(other Process) bool {
	return p.Machine != "" && other.Machine != "" && p.Machine != other.Machine
}

func (tl *Timeline) isGone(t OpenTurn) bool { return t.PID != 0 && !tl.Alive(t) }

// AppendEntry records one entry of an open turn with a single write, without a database, a lock or
// a sync. The entry survives the end of the process, but not a power failure.
func (tl *Timeline) AppendEntry(ctx context.Context, key segno.TurnKey, e segno.Entry) error {
	return tl.Spool.AppendEntry(ctx, key, e)
}
