package timeline

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Task is work that a turn started and that goes on when the turn has ended: a
// subagent, a shell command.
type Task struct {
	ID   string `json:"id"`
	Kind string `json:"kind,omitempty"` // as the agent names it: "subagent", "shell"
	What string `json:"what,omitempty"` // what the agent says of it
}

// TaskShell is the kind of a command in the background. No event tells of its end.
const TaskShell = "shell"

// NoteTask is the name of the note that a task ended; its ID is the task's.
const NoteTask = "task"

// InBackground reports whether a turn has ended and its tasks continue. Their later changes
// are added to the turn's checkpoint.
func (t *OpenTurn) InBackground() bool { return t.Ended != "" && !t.Awake }

// HasKey reports whether a key names the turn.
func (t *OpenTurn) HasKey(key segno.TurnKey) bool {
	return t.Key == key || slices.Contains(t.Also, key)
}

// newestKey is the key under which the agent works on the turn now; "" if it is that of
// the newest prompt that waited in the agent's queue.
func (t *OpenTurn) newestKey() segno.TurnKey {
	switch n := len(t.Also); {
	case n > 0:
		return t.Also[n-1]
	case t.Queued:
		return "" // only the transcript has it
	}
	return t.Key
}

// RunningTasks returns the tasks of a turn that have not ended, by its entries.
func (t *OpenTurn) RunningTasks(entries []segno.Entry) (running []Task) {
	for _, task := range t.Tasks {
		if !slices.ContainsFunc(entries, func(e segno.Entry) bool { return e.Kind == segno.EntryNote && e.Name == NoteTask && e.ID == task.ID }) {
			running = append(running, task)
		}
	}
	return running
}

// isWorking reports whether a turn in the spool changes files: one in the background does
// while tasks of it run.
func (tx *txn) isWorking(ctx context.Context, t OpenTurn) (bool, error) {
	if !t.InBackground() {
		return true, nil
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	return len(t.RunningTasks(entries)) > 0, err
}

// startedTasks returns the tasks that calls of a turn started, those that ended included:
// the report of one may still come. A turn that was interrupted has no other list.
func startedTasks(entries []segno.Entry) (tasks []Task) {
	names := map[string]string{} // of the tools, by call
	for _, e := range entries {
		if e.Kind == segno.EntryIntent {
			names[e.ID] = e.Name
		}
		if id := startedTask(e.Body); e.Kind == segno.EntryResult && id != "" {
			task := Task{ID: id, Kind: "subagent"}
			if isShell(names[e.ID]) {
				task.Kind = TaskShell
			}
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// taskEnds says until when each task of a turn worked: until now if it still does. A
// zero time is not known, because the agent is gone.
func (t *OpenTurn) taskEnds(entries []segno.Entry, now time.Time, gone bool) map[string]time.Time {
	if gone {
		now = time.Time{}
	}
	ends := map[string]time.Time{}
	for _, task := range t.Tasks {
		ends[task.ID] = now
	}
	for _, e := range entries {
		if e.Kind == segno.EntryNote && e.Name == NoteTask && e.ID != "" {
			ends[e.ID] = e.Time
		}
	}
	return ends
}

// backgroundTurns returns the turns of a session whose tasks go on in the background here;
// those of all sessions if session is "".
func (tx *txn) backgroundTurns(ctx context.Context, session segno.SessionID) (found []OpenTurn, err error) {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		if t.InBackground() && t.Workspace == tx.Workspace.ID() && (session == "" || t.Source.Session == session) {
			found = append(found, t)
		}
	}
	return found, nil
}

// keepOpenForTasks forgets a turn that ended, unless tasks of it go on.
func (tx *txn) keepOpenForTasks(ctx context.Context, w *turnEnd, made *segno.Checkpoint) error {
	turn := w.turn
	turn.Tasks = w.Tasks
	if len(w.Tasks) == 0 || w.turn.Start.IsZero() {
		return tx.Spool.Close(ctx, turn.Key)
	}
	turn.Ended, turn.Awake, turn.Thread, turn.Note, turn.Staged = made.ID, false, made.Thread, "", segno.Staged{}
	turn.Before, turn.Noted = &w.present, w.turn.Noted+w.noted
	return tx.Spool.Open(ctx, turn)
}

// endFinishedTasks adds to a turn the changes of its tasks since the newest checkpoint of
// its thread. Changes of the user in the meantime are left for an external checkpoint.
// If another turn of the thread runs, it keeps its own changes and the doubtful ones.
func (tx *txn) endFinishedTasks(ctx context.Context, t *OpenTurn) error {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, x := range turns {
		if x.Ended == "" && x.Key != t.Key && x.Before != nil && x.Thread == t.Thread && x.Workspace == t.Workspace && !x.commitsSteps() {
			_, err := tx.attributeToTurn(ctx, t, &x)
			return err
		}
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	gone := tx.isGone(*t)
	known := activity{calls: toolCalls(entries, tx.endOfOpenTasks(gone), t.taskEnds(entries, tx.Now(), gone)), root: tx.Workspace.Root()}
	if _, err := tx.attribute(ctx, t, entries, nil, known.ownerOf); err != nil {
		return fmt.Errorf("record background work: %w", err)
	}
	return nil
}

// checkBackground is endFinishedTasks for a turn that is forgotten once no task of it
// runs, or at once if end is set. It stays in the background otherwise. A turn whose
// changes cannot be recorded is set aside: later turns and moves must not fail with it.
func (tx *txn) checkBackground(ctx context.Context, t OpenTurn, end bool) error {
	if err := tx.endFinishedTasks(ctx, &t); err != nil {
		return tx.setAside(ctx, t.Key, err)
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return err
	}
	if end || tx.isGone(t) || len(t.RunningTasks(entries)) == 0 {
		return tx.Spool.Close(ctx, t.Key)
	}
	t.Awake = false
	return tx.Spool.Open(ctx, t)
}

// endOfOpenTasks is until when calls without a result worked: until now if the agent lives.
func (tx *txn) endOfOpenTasks(gone bool) time.Time {
	if gone {
		return time.Time{}
	}
	return tx.Now()
}

// resumeTurn opens the turn again that a report of a background task belongs to, and returns
// its key, or "" if no turn has that task. The agent answers the report, and its changes
// then belong to the turn.
func (tx *txn) resumeTurn(ctx context.Context, p Prompt) (segno.TurnKey, error) {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil || p.Task == "" {
		return "", err
	}
	for _, t := range turns {
		has := func(task Task) bool { return task.ID == p.Task }
		if t.Ended == "" || t.Workspace != tx.Workspace.ID() || t.Source.Session != p.Source.Session || !slices.ContainsFunc(t.Tasks, has) {
			continue
		}
		// First, so that the turn never looks as if nothing of it ran.
		if t.Awake = true; p.Key != "" && !t.HasKey(p.Key) {
			t.Also = append(t.Also, p.Key)
		}
		if err := tx.Spool.Open(ctx, t); err != nil {
			return "", err
		}
		note := segno.Entry{Kind: segno.EntryNote, Session: p.Source.Session, Time: tx.Now(), ID: p.Task, Name: NoteTask, Body: quote(p.Text)}
		if err := tx.AppendEntry(ctx, t.Key, note); err != nil {
			return "", err
		}
		if err := tx.endFinishedTasks(ctx, &t); err != nil {
			return "", tx.setAside(ctx, t.Key, err) // the answer begins a turn
		}
		if err := tx.commitExternalChanges(ctx, t.Thread, t.Key); err != nil {
			return "", err
		}
		return t.Key, nil
	}
	return "", nil
}

// commitExternalChanges commits an external checkpoint if the workspace is not what the head of
// a thread pins.
func (tx *txn) commitExternalChanges(ctx context.Context, thread segno.ThreadID, salt segno.TurnKey) error {
	head, at, err := tx.headAndCheckpoint(ctx, thread)
	if err != nil {
		return err
	}
	snap, staged, err := tx.snapshot(ctx)
	if err != nil {
		return err
	}
	if at.Tree() == snap.Tree || at.Workspace == nil {
		return tx.keepStaged(ctx, staged)
	}
	c, err := tx.externalCommit(ctx, head, at, snap, salt)
	if err != nil {
		return err
	}
	c.Staged = staged
	_, _, err = tx.commitOrDefer(ctx, head, c)
	return err
}

// endBackground ends a turn again whose agent answered a report, or went on at once:
// what changed since is the turn's. It stays in the background while tasks run.
func (tx *txn) endBackground(ctx context.Context, e TurnEnd, t OpenTurn) (*segno.Checkpoint, error) {
	if e.Late {
		return tx.finishBackground(ctx, t, tx.checkBackground(ctx, t, true))
	}
	if e.Source.Session != "" {
		t.Source = e.Source
	}
	if e.Settle != nil {
		prev, err := tx.previousPosition(ctx, t)
		if err != nil {
			return nil, err
		}
		e.Settle(ctx, t.Source, offsetOf(prev))
	}
	if e.Message != "" {
		if err := tx.AppendEntry(ctx, t.Key, segno.Entry{Kind: segno.EntryMessage, Session: t.Source.Session, Time: tx.Now(), Name: "agent", Body: quote(e.Message)}); err != nil {
			return nil, err
		}
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	if _, err := tx.attribute(ctx, &t, entries, nil, func(segno.Change, time.Time) owner { return ownTurn }); err != nil {
		return nil, fmt.Errorf("record the turn again: %w", err)
	}
	t.Awake = false
	if t.Tasks = e.Tasks; len(t.Tasks) > 0 {
		return tx.finishBackground(ctx, t, tx.Spool.Open(ctx, t))
	}
	return tx.finishBackground(ctx, t, tx.Spool.Close(ctx, t.Key))
}

// finishBackground returns the newest checkpoint of a turn.
func (tx *txn) finishBackground(ctx context.Context, t OpenTurn, err error) (*segno.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	return tx.endOfTurn(ctx, t.Key, t.Source.Session)
}

// attributeToBackground adds to turns in the background the changes of their tasks while turn
// ran. turn then begins from the result. It returns the paths whose times do not decide
// between the turn and a task.
func (tx *txn) attributeToBackground(ctx context.Context, turn *OpenTurn) (doubt []string, err error) {
	others, err := tx.backgroundTurns(ctx, turn.Source.Session)
	if err != nil || len(others) == 0 || turn.Before == nil || turn.Thread == "" {
		return nil, err
	}
	for _, t := range others {
		unsure, err := tx.attributeToTurn(ctx, &t, turn)
		if err != nil {
			if err := tx.setAside(ctx, t.Key, err); err != nil {
				return doubt, err
			}
			continue
		}
		doubt = append(doubt, unsure...)
		// One whose tasks ended stays, too: the report of the last may still come.
		if err := tx.Spool.Open(ctx, t); err != nil {
			return doubt, err
		}
	}
	return doubt, nil
}

// attributeToTurn is attributeToBackground for one turn t in the background.
func (tx *txn) attributeToTurn(ctx context.Context, t, turn *OpenTurn) (doubt []string, err error) {
	noted, _, err := tx.Spool.Entries(ctx, turn.Key)
	if err != nil {
		return nil, err
	}
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	root, now := tx.Workspace.Root(), tx.Now()
	own := activity{calls: toolCalls(noted, now, nil), root: root}
	known := activity{calls: toolCalls(entries, now, t.taskEnds(entries, now, tx.isGone(*t))), root: root}
	doubt, err = tx.attribute(ctx, t, entries, turn, func(c segno.Change, at time.Time) owner { return known.beside(&own, c, at) })
	if err != nil {
		return nil, fmt.Errorf("record background work: %w", err)
	}
	return doubt, nil
}

// beside says whose a change is while a turn runs and tasks of an earlier one go on in
// the background: c is what those tasks do, own what the turn does.
func (c *activity) beside(own *activity, change segno.Change, at time.Time) owner {
	switch mine, theirs := own.ownerOf(change, at), c.ownerOf(change, at); {
	case theirs == ownTurn && mine != ownTurn:
		return ownTurn
	case theirs == ownOther, theirs == ownDoubt && mine != ownOther:
		return ownOther
	}
	return ownDoubt
}

// attribute gives changes since the newest checkpoint to a turn in the background. It amends the
// turn's checkpoint and those above it with the same paths, so that each still differs
// from its parent by its own changes only. of decides which changes belong to the turn. If
// another turn runs, that turn begins from the result; doubtful changes stay with it and
// are returned. Otherwise they stay with t.
func (tx *txn) attribute(ctx context.Context, t *OpenTurn, entries []segno.Entry, running *OpenTurn, of func(segno.Change, time.Time) owner) (doubt []string, err error) {
	w, ok := tx.Workspace.(treeComposer)
	if !ok || tx.queue.behind {
		return nil, nil
	}
	if err := tx.refreshTurn(ctx, t); err != nil {
		return nil, err
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
	changes, err := tx.Workspace.Diff(ctx, line[0].Tree(), present.Tree)
	if err != nil {
		return nil, fmt.Errorf("compare workspace: %w", err)
	}
	between, err := tx.Workspace.Diff(ctx, t.at(line).Tree(), line[0].Tree())
	if err != nil {
		return nil, fmt.Errorf("compare checkpoints: %w", err)
	}
	times, err := touchTimes(ctx, w, changes)
	if err != nil {
		return nil, err
	}
	// No start: only the calls make a change the turn's here, and they have times.
	parts := divide(changes, times, time.Time{}, of)
	mine := parts.turn
	if doubt = parts.doubt; running == nil {
		added, err := tx.unchangedBy(ctx, t.at(line), doubt)
		if err != nil {
			return nil, err
		}
		mine = slices.Concat(mine, parts.dirs, added)
	}
	mine = slices.DeleteFunc(mine, func(p string) bool { return changesFile(between, p) })
	mine = withParents(mine, changes)
	fresh := entries[min(t.Noted, len(entries)):]
	if len(mine) == 0 && len(fresh) == 0 {
		staged, err := batch.Stage(ctx)
		if err != nil {
			return doubt, err
		}
		return doubt, tx.keepStaged(ctx, staged)
	}
	a := amendment{turn: t, line: line, running: running, entries: fresh}
	if running == nil {
		a.doubt = doubt
	}
	if len(line) == 1 && running == nil {
		if a.session, err = tx.positionOf(ctx, *t, batch); err != nil {
			return nil, err
		}
	}
	for _, c := range line {
		snap, err := w.Compose(ctx, batch, *c.Workspace, present, mine)
		if err != nil {
			return nil, err
		}
		a.snaps = append(a.snaps, snap)
	}
	return doubt, tx.amend(ctx, batch, a)
}

// refreshTurn takes over where a turn's checkpoint is by now: an amendment of an older turn
// amends it along.
func (tx *txn) refreshTurn(ctx context.Context, t *OpenTurn) error {
	turns, err := tx.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	for _, x := range turns {
		if x.Key == t.Key && x.Ended != "" {
			t.Ended, t.Parent = x.Ended, x.Parent
		}
	}
	return nil
}

// unchangedBy returns those of paths that a turn's checkpoint does not change. For a path
// that it changes, the checkpoint keeps the certain state, because a later, doubtful state may
// come from another author.
func (tx *txn) unchangedBy(ctx context.Context, turn *segno.Checkpoint, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	below, err := tx.checkpointWithDeferred(ctx, turn.Parent)
	if err != nil {
		return nil, err
	}
	own, err := tx.Workspace.Diff(ctx, below.Tree(), turn.Tree())
	if err != nil {
		return nil, fmt.Errorf("compare checkpoints: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return changesFile(own, p) }), nil
}

// positionOf captures where a turn's conversation ends by now.
func (tx *txn) positionOf(ctx context.Context, t OpenTurn, batch segno.Batch) (*segno.Position, error) {
	prev, err := tx.previousPosition(ctx, t)
	if err != nil {
		return nil, err
	}
	got, err := tx.capture(ctx, t, prev, batch)
	return &got.Position, err
}

// lineTo returns the checkpoints from the head of a turn's thread down to the turn's
// own, newest first; nil if they cannot be amended, because the thread is elsewhere by
// now or something other than a turn stands between.
func (tx *txn) lineTo(ctx context.Context, t, running *OpenTurn) ([]*segno.Checkpoint, error) {
	if running != nil {
		if err := tx.followAmendment(ctx, running); err != nil {
			return nil, err
		}
	}
	head, _, err := tx.headAndCheckpoint(ctx, t.Thread)
	if err != nil {
		return nil, err
	}
	if running != nil && (running.Parent != head.Head || running.Thread != t.Thread) {
		return nil, nil
	}
	line, err := tx.line(ctx, head.Head)
	if err != nil {
		return nil, err
	}
	for i, c := range line[:min(len(line), maxAmendments)] {
		own := c.ID == t.Ended
		if !own && c.Key == t.Key {
			if own, err = tx.replaces(ctx, c, t.Ended); err != nil {
				return nil, err
			}
		}
		switch {
		case c.Workspace == nil, c.Kind != segno.CheckpointTurn && c.Kind != segno.CheckpointExternal, i == 0 && running != nil && c.Tree() != running.Before.Tree:
			return nil, nil
		case own:
			t.Ended = c.ID
			return line[:i+1], tx.unpinned(ctx, line[:i+1], &line)
		}
	}
	return nil, nil
}

// unpinned makes line nil if a checkpoint of it is pinned: a name stays where the user
// put it.
func (tx *txn) unpinned(ctx context.Context, of []*segno.Checkpoint, line *[]*segno.Checkpoint) error {
	for c, err := range tx.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(of, func(x *segno.Checkpoint) bool { return x.ID == c.ID }) {
			*line = nil
		}
	}
	return nil
}

// checkpointWithDeferred returns the turn's own checkpoint, the oldest of a line that leads to it.
func (t *OpenTurn) at(line []*segno.Checkpoint) *segno.Checkpoint { return line[len(line)-1] }

// changesFile reports whether changes hold a path, as other than a directory.
func changesFile(changes []segno.Change, p string) bool {
	return slices.ContainsFunc(changes, func(c segno.Change) bool {
		return c.Path == p && c.From.Type != segno.EntityDir && c.To.Type != segno.EntityDir
	})
}

// withParents adds the directories that lead to paths and are there now.
func withParents(paths []string, changes []segno.Change) []string {
	gone := map[string]bool{}
	for _, c := range changes {
		gone[c.Path] = c.To.Type != segno.EntityDir
	}
	seen := map[string]bool{}
	for _, p := range paths {
		for d := path.Dir(p); d != "." && !seen[d]; d = path.Dir(d) {
			if seen[d] = true; !gone[d] {
				paths = append(paths, d)
			}
		}
	}
	return paths
}
