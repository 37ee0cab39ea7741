package timeline

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
)

// reopened returns a recorded turn as one in the background, so that it can end again. It returns false if the checkpoint of the turn
// cannot be amended.
func (tx *txn) reopened(ctx context.Context, c *segno.Checkpoint, p Prompt, tasks ...Task) (OpenTurn, bool, error) {
	t := OpenTurn{Key: c.Key, Thread: c.Thread, Parent: c.Parent, Agent: c.Agent, Source: p.Source, Workspace: tx.Workspace.ID(), Prompt: c.Prompt,
		Before: c.Workspace, Start: c.Time, Process: p.Process, Ended: c.ID, Tasks: tasks}
	if c.Kind != segno.CheckpointTurn {
		return t, false, nil
	}
	line, err := tx.lineTo(ctx, &t, nil)
	return t, line != nil, err
}

// ReopenTurn opens a recorded turn again when the agent continues it after its end, because a hook of the user for the end of a turn
// demanded it. From then on, moves are refused. The caller records the entry of the first call afterwards. If the checkpoint of the
// turn cannot be amended, for example because the user has undone it, ReopenTurn begins another turn with the same prompt. If the turn was
// not recorded, ReopenTurn opens it if a command began it that the user typed in the agent's terminal: Claude Code does not report such a
// beginning. It does nothing if another turn of the session runs.
func (tl *Timeline) ReopenTurn(ctx context.Context, p Prompt) (TurnStart, error) {
	c, err := tl.reopen(ctx, p)
	if c == nil || err != nil {
		return TurnStart{}, err
	}
	p.Text = c.Prompt
	return tl.BeginTurn(ctx, p)
}

// reopen opens a recorded turn again. It returns the checkpoint of the turn if that cannot be amended, else nil.
func (tl *Timeline) reopen(ctx context.Context, p Prompt) (*segno.Checkpoint, error) {
	tx, err := tl.prepareRecord(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.unlock()
	runs := func(t OpenTurn) bool {
		return t.Key == p.Key || t.Source.Session == p.Source.Session && !t.InBackground()
	}
	if tx.deferred || slices.ContainsFunc(tx.turns, runs) {
		return nil, tx.pendingErr
	}
	c, err := tx.recordedEnd(ctx, OpenTurn{Key: p.Key, Source: p.Source})
	if err != nil {
		return nil, errors.Join(err, tx.pendingErr)
	}
	if c == nil {
		t, err := tx.unreported(ctx, p)
		if err == nil && !t.Start.IsZero() {
			err = tx.saveTurn(ctx, t)
		}
		return nil, errors.Join(err, tx.pendingErr)
	}
	t, isIts, err := tx.reopened(ctx, c, p)
	if err != nil || !isIts {
		return c, errors.Join(err, tx.pendingErr)
	}
	t.Awake = true
	return nil, errors.Join(tx.saveTurn(ctx, t), tx.pendingErr)
}

// reopenToEnd is ReopenTurn at the next end of the turn, if ReopenTurn was not called, or failed. It returns false if the turn that is
// not in the spool was not recorded, if the agent made no call since, or if the checkpoint of the turn cannot be amended.
func (tx *txn) reopenToEnd(ctx context.Context, e TurnEnd, t OpenTurn) (OpenTurn, bool, error) {
	if !t.Start.IsZero() || e.Interrupted || e.Late || tx.deferred {
		return t, false, nil
	}
	c, err := tx.recordedEnd(ctx, t)
	if err != nil || c == nil || c.Thread != t.Thread {
		return t, false, err
	}
	noted, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil || !slices.ContainsFunc(noted, func(x segno.Entry) bool { return x.Kind == segno.EntryIntent }) {
		return t, false, err
	}
	return tx.reopened(ctx, c, Prompt{Source: cmp.Or(e.Source, t.Source), Process: e.Process})
}

// reopenForTask reopens the newest turn of a session for the report of a background task that it started. Another report has ended the
// turn before. It returns false if the turn did not start the task, or if another turn of the session runs.
func (tx *txn) reopenForTask(ctx context.Context, p Prompt) (OpenTurn, bool, error) {
	if tx.deferred || slices.ContainsFunc(tx.turns, func(t OpenTurn) bool { return t.Source.Session == p.Source.Session }) {
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
	i := slices.IndexFunc(startedTasks(entries), func(task Task) bool { return task.ID == p.Task })
	if i < 0 {
		return OpenTurn{}, false, nil
	}
	return tx.reopened(ctx, c, p, startedTasks(entries)[i])
}

// isSamePosition reports whether two positions are the same place in a conversation.
func isSamePosition(a, b *segno.Position) bool {
	return a != nil && b != nil && a.Session == b.Session && a.Offset == b.Offset && a.SHA256 == b.SHA256
}
