package timeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// reopened returns a recorded turn as one in the background, so that it can end again.
func (tx *txn) reopened(c *segno.Checkpoint, src segno.Source, p Process) OpenTurn {
	return OpenTurn{Key: c.Key, Thread: c.Thread, Parent: c.Parent, Agent: c.Agent, Source: src, Workspace: tx.Workspace.ID(), Prompt: c.Prompt,
		Before: c.Workspace, Start: c.Time, Process: p, Ended: c.ID}
}

// reopenToEnd reopens a turn that the agent continued after its end, because a hook of the user for the end of a turn demanded it. It
// returns false if the turn that is not in the spool was not recorded, if the agent did nothing since, or if the checkpoint of the turn
// cannot be amended.
func (tx *txn) reopenToEnd(ctx context.Context, e TurnEnd, t OpenTurn) (OpenTurn, bool, error) {
	if !t.Start.IsZero() || e.Interrupted || e.Late || tx.deferred {
		return t, false, nil
	}
	done, err := tx.recordedEnd(ctx, t)
	if err != nil || done == nil || done.Kind != segno.CheckpointTurn || done.Thread != t.Thread {
		return t, false, err
	}
	noted, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil || !slices.ContainsFunc(noted, func(x segno.Entry) bool { return x.Kind == segno.EntryIntent }) {
		return t, false, err
	}
	again := tx.reopened(done, cmp.Or(e.Source, t.Source), e.Process)
	line, err := tx.lineTo(ctx, &again, nil)
	return again, line != nil, err
}

// reopenForTask reopens the newest turn of a session for the report of a background task that it started. Another report has ended the
// turn before. It returns false if the turn did not start the task, or if another turn of the session runs.
func (tx *txn) reopenForTask(ctx context.Context, p Prompt) (OpenTurn, bool, error) {
	runs := func(t OpenTurn) bool { return t.Source.Session == p.Source.Session }
	if tx.deferred || slices.ContainsFunc(tx.turns, runs) {
		return OpenTurn{}, false, nil
	}
	thread, err := tx.threadOf(ctx, p.Source.Session)
	if err != nil || thread == "" {
		return OpenTurn{}, false, err
	}
	c, err := tx.newestTurn(ctx, thread, p.Source.Session)
	if err != nil || c == nil || c.Key == "" {
		return OpenTurn{}, false, err
	}
	entries, err := tx.commitEntries(ctx, c.ID)
	if err != nil {
		return OpenTurn{}, false, err
	}
	t := tx.reopened(c, p.Source, p.Process)
	for _, task := range startedTasks(entries) {
		if task.ID == p.Task {
			t.Tasks = []Task{task}
		}
	}
	if t.Tasks == nil {
		return t, false, nil
	}
	line, err := tx.lineTo(ctx, &t, nil)
	return t, line != nil, err
}

// isSamePosition reports whether two positions are the same place in a conversation.
func isSamePosition(a, b *segno.Position) bool {
	return a != nil && b != nil && a.Session == b.Session && a.Offset == b.Offset && a.SHA256 == b.SHA256
}
