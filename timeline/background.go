package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// Task is work that a turn started and that continues after the turn has ended, for example a
// subagent or a shell command.
type Task struct {
	ID   string `json:"id"`
	Kind string `json:"kind,omitempty"` // the agent's word: "subagent", "shell"
	What string `json:"what,omitempty"` // the agent's description
	Call string `json:"call,omitempty"` // the call that started it, if a result shows that
}

// TaskShell is the kind of a command in the background. No event reports its end. The sessions of Codex show it.
const TaskShell = "shell"

// The names of the notes about a task: that it began, if no result of a call shows it, and that it
// ended. The ID of a note is the task's.
const (
	NoteTaskBegin = "task-begin"
	NoteTask      = "task"
)

// NoteLost is the name of a note in place of entries of a turn that were lost.
const NoteLost = "lost"

// NoteAgentEnded is the name of a note of the moment at which the agent's process ended in the middle of a turn that another process
// continues. The calls without a result ended then, or went on without the agent.
const NoteAgentEnded = ownership.NoteAgentEnded

// InBackground reports whether a turn has ended but some of its tasks continue. Their later changes are
// added to the turn's checkpoint.
func (t *OpenTurn) InBackground() bool { return t.Ended != "" && !t.Awake }

// RunsQueued reports whether a queued turn has not ended, so that events of its session under any key may be its own.
func (t *OpenTurn) RunsQueued() bool { return t.Queued && t.Ended == "" }

// HasKey reports whether a key names the turn.
func (t *OpenTurn) HasKey(key segno.TurnKey) bool {
	return t.Key == key || slices.Contains(t.Also, key)
}

// newestKey is the key under which the agent now works on the turn. It is "" if only the transcript has
// that key, because the prompt waited in the agent's queue.
func (t *OpenTurn) newestKey() segno.TurnKey {
	switch n := len(t.Also); {
	case n > 0:
		return t.Also[n-1]
	case t.Queued:
		return ""
	}
	return t.Key
}

// hasTask reports whether the turn started a background task.
func (t *OpenTurn) hasTask(id string) bool {
	return slices.ContainsFunc(t.Tasks, func(task Task) bool { return task.ID == id })
}

// RunningTasks returns the tasks of a turn that, according to its entries, have not ended.
func (t *OpenTurn) RunningTasks(entries []segno.Entry) (running []Task) {
	return unfinished(t.Tasks, entries)
}

// UnfinishedTasks returns the background tasks that the entries of a turn start but do not end.
func UnfinishedTasks(entries []segno.Entry) []Task { return unfinished(startedTasks(entries), entries) }

// unfinished returns the tasks whose end is not in entries.
func unfinished(tasks []Task, entries []segno.Entry) (running []Task) {
	for _, task := range tasks {
		if !slices.ContainsFunc(entries, func(e segno.Entry) bool { return isTaskEnd(e) && e.ID == task.ID }) {
			running = append(running, task)
		}
	}
	return running
}

// hasSubagent reports whether a subagent that the turn started has not ended, according to the turn's entries.
func (t *OpenTurn) hasSubagent(entries []segno.Entry) bool {
	running := unfinished(slices.Concat(startedTasks(entries), t.Tasks), entries)
	return slices.ContainsFunc(running, func(task Task) bool { return task.Kind != TaskShell })
}

func isTaskEnd(e segno.Entry) bool { return e.Kind == segno.EntryNote && e.Name == NoteTask }

// isWorking reports whether a turn in the spool may change files now. A turn in the background may do
// so while some of its tasks run.
func (tx *txn) isWorking(ctx context.Context, t OpenTurn) (bool, error) {
	if !t.InBackground() {
		return true, nil
	}
	running, err := tx.RunningTasks(ctx, &t)
	return len(running) > 0, err
}

// startedTasks returns the tasks that calls of a turn started. It includes those that ended, because
// their reports may still come. For an interrupted turn, there is no other list of tasks.
func startedTasks(entries []segno.Entry) (tasks []Task) {
	calls := map[string]segno.Entry{}
	for _, e := range entries {
		if e.Kind == segno.EntryIntent {
			calls[e.ID] = e
		}
		if id := ownership.StartedTask(e.Body); e.Kind == segno.EntryResult && id != "" {
			task := Task{ID: id, Kind: "subagent", Call: e.ID}
			if call := calls[e.ID]; agents.IsShell(call.Name) {
				task.Kind, task.What = TaskShell, agents.Tool(call.Name).Command(turns.ReadIntent(call.Body).Input)
			}
			tasks = append(tasks, task)
		}
		if e.Kind == segno.EntryNote && e.Name == NoteTaskBegin {
			tasks = append(tasks, Task{ID: e.ID, Kind: "subagent"})
		}
	}
	return tasks
}

// taskEnds returns the time until which each task of a turn worked. For a task that did not report its
// end, this is now, or zero if the caller does not know.
func (t *OpenTurn) taskEnds(entries []segno.Entry, now time.Time) map[string]time.Time {
	ends := map[string]time.Time{}
	for _, task := range t.Tasks {
		ends[task.ID] = now
	}
	stops := map[string]string{} // the tasks that calls stop, by call
	for _, e := range entries {
		switch task := stops[e.ID]; {
		case isTaskEnd(e) && e.ID != "":
			ends[e.ID] = e.Time
		case e.Kind == segno.EntryIntent && e.ID != "":
			stops[e.ID] = ownership.StoppedTask(e.Name, e.Body)
		case e.Kind == segno.EntryResult && task != "" && ends[task].Equal(now):
			if stopped := turns.ReadResult(e.Body); !stopped.HasError {
				ends[task] = e.Time
			}
		}
	}
	return ends
}

// allTaskEnds is taskEnds for all tasks that an open turn started, because some tasks end without an
// event.
func (t *OpenTurn) allTaskEnds(entries []segno.Entry, now time.Time) map[string]time.Time {
	all := OpenTurn{Tasks: slices.Concat(startedTasks(entries), t.Tasks)}
	return all.taskEnds(entries, now)
}

// workedUntil returns the end of those calls and tasks of a turn that did not report their ends: the
// current time if the agent still runs, else zero, which means unknown.
func (tx *txn) workedUntil(t *OpenTurn) time.Time {
	if tx.isGone(*t) {
		return time.Time{}
	}
	return tx.Now()
}

// endFinishedTasks adds to a turn the changes of its tasks since the newest checkpoint of its thread.
// Changes that the user made in the meantime are left for an external checkpoint. If another turn of
// the thread runs, the other turn keeps its own changes and the doubtful ones.
func (tx *txn) endFinishedTasks(ctx context.Context, t *OpenTurn) error {
	for _, x := range tx.turns {
		if x.Ended == "" && x.Key != t.Key && x.Before != nil && x.Thread == t.Thread && x.Workspace == t.Workspace && !x.commitsSteps() {
			_, err := tx.attributeToTurn(ctx, t, &x)
			return err
		}
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	until := tx.workedUntil(t)
	known := tx.background(ctx, t, entries, nil, until)
	if _, err := tx.attribute(ctx, t, entries, nil, nil, ownership.InDoubtIfRan(known.Owner)); err != nil {
		return fmt.Errorf("record background work: %w", err)
	}
	return nil
}

// background returns the evidence about the tasks of a turn. entries are those of the turn. until is when tasks and calls
// without a recorded end stopped working, or zero if unknown. beside are the entries of the turn that runs meanwhile, if
// there is one.
func (tx *txn) background(ctx context.Context, t *OpenTurn, entries, beside []segno.Entry, until time.Time) *ownership.Evidence {
	recorded := t.recordedUntil(entries)
	entries = tx.withUnreported(ctx, t, entries)
	in := tx.openContext(t, entries, until, t.taskEnds(entries, until))
	in.Recorded, in.Beside = recorded, beside
	return &ownership.Evidence{Calls: ownership.Calls(entries, in), Root: tx.Workspace.Root()}
}

// recordedUntil returns the time of the newest entry that the turn's checkpoint contains, or zero.
func (t *OpenTurn) recordedUntil(entries []segno.Entry) (at time.Time) {
	for _, e := range entries[:min(t.Noted, len(entries))] {
		if e.Time.After(at) {
			at = e.Time
		}
	}
	return at
}

// ownerWhileAwake returns the owners of changes while the agent answered the report of a task.
func (tx *txn) ownerWhileAwake(ctx context.Context, t *OpenTurn, entries []segno.Entry) ownership.Func {
	if !agents.ReportsCalls(t.Agent) && t.Noted > 0 {
		return ownership.All
	}
	recorded := t.recordedUntil(entries)
	entries = tx.withUnreportedResults(ctx, t, entries)
	in := tx.openContext(t, entries, tx.Now(), t.taskEnds(entries, tx.Now()))
	in.Recorded = recorded
	if t.Noted == 0 {
		in.Left = tx.Now() // all calls are newer than the earlier end, so nothing that a command left behind has worked in between
	}
	e := &ownership.Evidence{Calls: ownership.Calls(entries, in), Root: tx.Workspace.Root()}
	return e.Owner
}

// checkBackground records the changes of the finished tasks of a turn. It closes the turn if none of its
// tasks runs any more, or if end is set. Otherwise the turn stays in the background. If the changes cannot
// be recorded, checkBackground sets the turn aside, so that later turns and moves do not fail.
func (tx *txn) checkBackground(ctx context.Context, t OpenTurn, end bool) error {
	if err := tx.noteEndedCommands(ctx, &t); err != nil {
		return err
	}
	if err := tx.endFinishedTasks(ctx, &t); err != nil {
		return tx.setAside(ctx, t.Key, err)
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	if end || tx.isGone(t) || len(t.RunningTasks(entries)) == 0 {
		return tx.closeTurn(ctx, t.Key)
	}
	t.Awake = false
	return tx.saveTurn(ctx, t)
}

// resumeTurn reopens the turn that started the background task of a report, and returns its key, or ""
// if there is none. The agent answers the report, and the changes that it makes belong to the
// turn.
func (tx *txn) resumeTurn(ctx context.Context, p Prompt) (segno.TurnKey, error) {
	i := slices.IndexFunc(tx.turns, func(t OpenTurn) bool {
		return t.Ended != "" && t.Workspace == tx.Workspace.ID() && t.Source.Session == p.Source.Session && t.hasTask(p.Task)
	})
	var t OpenTurn
	if i >= 0 {
		t = tx.turns[i]
	} else {
		again, isIts, err := tx.reopenForTask(ctx, p)
		if err != nil || !isIts {
			return "", err
		}
		t = again
	}
	// Open the turn before its task ends, so that the turn counts as working at every moment.
	if t.Awake = true; p.Key != "" && !t.HasKey(p.Key) {
		t.Also = append(t.Also, p.Key)
	}
	if err := tx.saveTurn(ctx, t); err != nil {
		return "", err
	}
	if err := tx.AppendEntry(ctx, t.Key, tx.taskEnd(p)); err != nil {
		return "", err
	}
	if err := tx.endFinishedTasks(ctx, &t); err != nil {
		return "", tx.setAside(ctx, t.Key, err) // the answer then begins a new turn
	}
	return t.Key, tx.commitExternalChanges(ctx, t.Thread, t.Key)
}

// taskEnd returns the note that a prompt reported the end of a task.
func (tx *txn) taskEnd(p Prompt) segno.Entry {
	return segno.Entry{Kind: segno.EntryNote, Session: p.Source.Session, Time: tx.Now(), ID: p.Task, Name: NoteTask, Body: quote(p.Text)}
}

// endBackground ends a turn again after its agent answered a report, or continued without one. All
// changes since then belong to the turn. The turn stays in the background while tasks run.
func (tx *txn) endBackground(ctx context.Context, e TurnEnd, t OpenTurn) (*segno.Checkpoint, error) {
	var err error
	if e.Late {
		err = tx.checkBackground(ctx, t, true)
	} else {
		t.Source = cmp.Or(e.Source, t.Source)
		err = tx.endAgain(ctx, e, t)
	}
	if err != nil {
		return nil, err
	}
	return tx.recordedEnd(ctx, t)
}

// endAgain records the changes and the last message of a turn that has ended before.
func (tx *txn) endAgain(ctx context.Context, e TurnEnd, t OpenTurn) error {
	if e.AwaitTranscript != nil {
		prev, err := tx.previousPosition(ctx, t)
		if err != nil {
			return err
		}
		e.AwaitTranscript(ctx, t.Source, offsetOf(prev))
	}
	if e.Message != "" {
		message := segno.Entry{Kind: segno.EntryMessage, Session: t.Source.Session, Time: tx.Now(), Name: "agent", Body: quote(e.Message)}
		if err := tx.AppendEntry(ctx, t.Key, message); err != nil {
			return err
		}
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	if _, err := tx.attribute(ctx, &t, entries, nil, nil, tx.ownerWhileAwake(ctx, &t, entries)); err != nil {
		return fmt.Errorf("record the turn again: %w", err)
	}
	t.Awake = false
	if t.Tasks = e.Tasks; len(t.Tasks) > 0 {
		return tx.saveTurn(ctx, t)
	}
	return tx.closeTurn(ctx, t.Key)
}

// attributeToBackground gives the changes that background tasks made while turn ran to the earlier
// turns of the same session that started the tasks. turn then begins from the result.
// attributeToBackground returns the paths whose times do not decide between turn and a task.
func (tx *txn) attributeToBackground(ctx context.Context, turn *OpenTurn) (doubt []string, err error) {
	if turn.Before == nil || turn.Thread == "" {
		return nil, nil
	}
	for _, t := range tx.turns {
		if !t.InBackground() || t.Workspace != tx.Workspace.ID() || t.Source.Session != turn.Source.Session {
			continue
		}
		unsure, err := tx.attributeToTurn(ctx, &t, turn)
		if err == nil {
			// The turn stays open even if its tasks ended, because the report of the last one may still
			// come.
			doubt = append(doubt, unsure...)
			err = tx.saveTurn(ctx, t)
		} else {
			err = tx.setAside(ctx, t.Key, err)
		}
		if err != nil {
			return doubt, err
		}
	}
	return doubt, nil
}

// attributeToTurn gives the changes that the tasks of t made while turn ran to t. It returns the paths whose
// times do not decide between the two turns.
func (tx *txn) attributeToTurn(ctx context.Context, t, turn *OpenTurn) ([]string, error) {
	noted, _, err := tx.Spool.Entries(ctx, turn.Key)
	if err != nil {
		return nil, err
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	noted = tx.withUnreported(ctx, turn, noted)
	now := tx.Now()
	in := tx.openContext(turn, noted, now, turn.allTaskEnds(noted, now))
	running := &ownership.Evidence{Calls: ownership.Calls(noted, in), Root: tx.Workspace.Root()}
	background := tx.background(ctx, t, entries, noted, tx.workedUntil(t))
	unsure := map[string]bool{}
	doubt, err := tx.attribute(ctx, t, entries, turn, unsure, ownership.Beside(running.Owner, background.Owner, unsure))
	if err != nil {
		return nil, fmt.Errorf("record background work: %w", err)
	}
	return doubt, nil
}

// attribute gives changes since the newest checkpoint to a turn in the background. It amends the turn's
// checkpoint and those above it with the same paths, so that each still differs from its parent only by
// its own changes. owners decides which changes belong to the turn. If another turn runs, that turn
// begins from the result and keeps the doubtful changes, and attribute returns their paths. If none
// runs, the doubtful changes stay with t. The paths in unsure are doubtful changes of t.
func (tx *txn) attribute(ctx context.Context, t *OpenTurn, entries []segno.Entry, running *OpenTurn, unsure map[string]bool, owners ownership.Func) (doubt []string, err error) {
	if tx.deferred {
		return nil, nil
	}
	if x, _ := tx.openTurn(t.Key); x.Ended != "" {
		t.Ended, t.Parent = x.Ended, x.Parent // an amendment of an older turn amended this one, too
	}
	line, err := tx.lineTo(ctx, t, running)
	if err != nil || line == nil {
		return nil, err
	}
	batch := tx.Store.Objects().Batch()
	defer batch.Close()
	present, err := tx.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("snapshot workspace: %w", err)
	}
	mine, doubt, err := tx.ownChanges(ctx, line, present, running == nil, unsure, owners)
	if err != nil {
		return nil, err
	}
	a := amendment{turn: t, line: line, running: running, entries: entries[min(t.Noted, len(entries)):]}
	if len(mine) == 0 && len(a.entries) == 0 {
		staged, err := batch.Stage(ctx)
		if err != nil {
			return doubt, err
		}
		return doubt, tx.keepStaged(ctx, staged)
	}
	if running != nil {
		a.doubt = slices.DeleteFunc(slices.Clone(mine), func(p string) bool { return !unsure[p] })
	} else {
		a.doubt = doubt
		isTurn := func(c *segno.Checkpoint) bool { return c.Kind == segno.CheckpointTurn }
		if !slices.ContainsFunc(line[:len(line)-1], isTurn) { // the newest turn of the conversation
			if a.session, err = tx.positionOf(ctx, *t, batch); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range line {
		snap, err := tx.Workspace.Compose(ctx, batch, *c.Workspace, present, mine)
		if err != nil {
			return nil, err
		}
		a.snaps = append(a.snaps, snap)
	}
	return doubt, tx.amend(ctx, batch, a)
}

// ownChanges returns the paths that changed since the newest checkpoint of a line because of the turn
// of its oldest checkpoint, and the paths in doubt. A path that a checkpoint above the turn's changed
// is in neither list. alone is set if no other turn runs. The turn then also gets the doubtful paths,
// including those in unsure, except for paths whose state in its checkpoint is certain.
func (tx *txn) ownChanges(ctx context.Context, line []*segno.Checkpoint, present segno.Snapshot, alone bool, unsure map[string]bool, owners ownership.Func) (mine, doubt []string, err error) {
	turn := ownOf(line)
	changes, err := tx.diff(ctx, line[0].Tree(), present.Tree)
	if err != nil {
		return nil, nil, err
	}
	later, err := tx.diff(ctx, turn.Tree(), line[0].Tree())
	if err != nil {
		return nil, nil, err
	}
	times, err := tx.touchTimes(ctx, changes)
	if err != nil {
		return nil, nil, err
	}
	// The start of the turn does not matter here, because only calls make a change the turn's, and
	// calls have times.
	parts := ownership.Divide(changes, times, time.Time{}, owners)
	mine, doubtful := parts.ForBackground(alone, unsure)
	if len(doubtful) > 0 {
		below, err := tx.checkpoint(ctx, turn.Parent)
		if err != nil {
			return nil, nil, err
		}
		own, err := tx.diff(ctx, below.Tree(), turn.Tree())
		if err != nil {
			return nil, nil, err
		}
		mine = append(mine, ownership.WithoutChanged(doubtful, own)...)
	}
	return ownership.WithParents(ownership.WithoutChanged(mine, later), changes), parts.Doubt, nil
}

// positionOf captures the present end of a turn's conversation.
func (tx *txn) positionOf(ctx context.Context, t OpenTurn, batch segno.Batch) (*segno.Position, error) {
	prev, err := tx.previousPosition(ctx, t)
	if err != nil {
		return nil, err
	}
	got, err := tx.capture(ctx, t, prev, batch)
	return &got.Position, err
}

// lineTo returns the checkpoints from the head of a turn's thread down to the turn's own, newest first.
// It returns nil if they cannot be amended: the thread moved, depthOf refuses one of them, or the user
// pinned one, because a name must stay at its checkpoint.
func (tx *txn) lineTo(ctx context.Context, t, running *OpenTurn) ([]*segno.Checkpoint, error) {
	if running != nil {
		if err := tx.followAmendment(ctx, running); err != nil {
			return nil, err
		}
	}
	s, err := tx.threadState(ctx, t.Thread)
	if err != nil || running != nil && (running.Parent != s.head.Head || running.Thread != t.Thread) {
		return nil, err
	}
	line, err := tx.line(ctx, s.head.Head)
	if err != nil || running != nil && line[0].Tree() != running.Before.Tree {
		return nil, err
	}
	n, err := tx.depthOf(ctx, t, line)
	if err != nil || n == 0 {
		return nil, err
	}
	t.Ended = line[n-1].ID
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil || slices.ContainsFunc(line[:n], hasID(c.ID)) {
			return nil, err
		}
	}
	return line[:n], nil
}

// depthOf returns the number of checkpoints from the newest of a line down to a turn's own, including
// that one. It returns 0 if one of them cannot be amended: it is of another kind than a turn or an
// external change, it has no files, or the turn's is not among the newest maxAmendments.
func (tx *txn) depthOf(ctx context.Context, t *OpenTurn, line []*segno.Checkpoint) (n int, err error) {
	for i, c := range line[:min(len(line), maxAmendments)] {
		if c.Workspace == nil || c.Kind != segno.CheckpointTurn && c.Kind != segno.CheckpointExternal {
			return 0, nil
		}
		own := c.ID == t.Ended
		if !own && c.Key == t.Key {
			if own, err = tx.replaces(ctx, c, t.Ended); err != nil {
				return 0, err
			}
		}
		if own {
			return i + 1, nil
		}
	}
	return 0, nil
}

// ownOf returns the turn's own checkpoint: the oldest of a line that ends with it.
func ownOf(line []*segno.Checkpoint) *segno.Checkpoint { return line[len(line)-1] }
