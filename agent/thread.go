package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/timeline"
)

// openThread creates the thread if it does not exist, acquires its lease and loads it.
func (r *run) openThread(ctx context.Context) error {
	r.thread = segno.ThreadID(r.in.Thread)
	if r.thread == "" {
		r.thread = segno.ThreadID(segno.NewID())
	}
	if err := segno.CheckID("run agent", string(r.thread)); err != nil {
		return err
	}
	head, err := r.headOf(ctx, r.thread)
	if segno.KindOf(err) == segno.KindNotFound {
		switch {
		case r.in.hasPrompt() && !r.in.Begun:
			head, err = r.createThread(ctx)
		case r.onlyMoves:
			return segno.Errorf(segno.KindNotFound, "find thread", string(r.thread), "the thread does not exist")
		default:
			return segno.Errorf(segno.KindNotFound, "run agent", string(r.thread), "the thread does not exist").
				WithHint("start it with a prompt")
		}
	}
	if err != nil {
		return fmt.Errorf("find thread: %w", err)
	}
	r.head = head
	if r.lease, err = r.acquire(ctx); err != nil {
		return err
	}
	if err := r.completeMove(ctx); err != nil {
		return err
	}
	if err := r.replayDeferred(ctx); err != nil {
		return err
	}
	if err := r.reload(ctx); err != nil {
		return err
	}
	if r.foreign {
		return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "it is a conversation of another agent, which keeps its own sessions")
	}
	if r.FilesAt != "" && r.head.Head != r.FilesAt {
		return segno.NewError(segno.KindConflict, "run agent", string(r.thread), &segno.ConflictError{Actual: r.head}).
			WithHint("make the directory equal to the new head, and run again")
	}
	return nil
}

// createThread creates the thread, with a base checkpoint for undo.
func (r *run) createThread(ctx context.Context) (segno.Head, error) {
	now := r.Now()
	t := &segno.Thread{ID: r.thread, Created: now, Title: timeline.Title(r.in.Prompt), Agent: r.Name}
	if r.parent != nil {
		t.ParentThread, t.Name = r.parent.thread, r.sub
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Create: t,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: now, Agent: r.Name}}
	head, err := r.commitWithRetry(ctx, c)
	switch segno.KindOf(err) {
	case segno.KindConflict, segno.KindFenced:
		return r.Store.Head(ctx, r.thread) // another run created it; the lease decides which continues
	case segno.KindNotFound:
		return head, segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "a thread with this name was deleted").
			WithHint("choose another name")
	}
	if err == nil {
		r.emitCommit(&segno.Node{ID: c.ID, Thread: c.Thread, Seq: head.Seq, Checkpoint: c.Checkpoint})
	}
	return head, err
}

// headOf reads a thread's head.
func (a *Agent) headOf(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	return retry(ctx, a, busyTries, func() (segno.Head, error) { return a.Store.Head(ctx, thread) })
}

// reload reads the thread's head and line.
func (r *run) reload(ctx context.Context) (err error) {
	if r.head, err = r.headOf(ctx, r.thread); err != nil {
		return err
	}
	return r.load(ctx)
}

// load reads the line at the head.
func (r *run) load(ctx context.Context) error {
	line, err := r.loadLine(ctx, r.head.Head, segno.Window{Entries: true})
	if err != nil {
		return fmt.Errorf("load thread: %w", err)
	}
	if r.state, err = segno.Fold(line); err != nil {
		return err
	}
	r.conversation = newConversation()
	messages, err := decodeMessages(r.thread, r.state.Messages)
	if r.foreign = err != nil && isOfSession(line); r.foreign {
		err = nil
	}
	if err != nil {
		return err
	}
	for _, m := range messages {
		r.add(m)
	}
	r.values = newValues(r.state.Values)
	r.showAll(r.System, r.summary())
	r.lineIndex = newLineIndex()
	for i := range line.Commits {
		r.addCommit(&line.Commits[i])
		for _, e := range line.Commits[i].Entries {
			r.countShell(&e)
		}
	}
	r.turn = r.state.Turn
	r.loadCheckpoints(line)
	return nil
}

// isOfSession reports whether the newest checkpoint of a line was recorded for an agent that keeps its own sessions.
func isOfSession(line *segno.Line) bool {
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil {
			return n.Checkpoint.Session != nil
		}
	}
	return false
}

// loadCheckpoints reads the position and the turn from the line's checkpoints.
func (r *run) loadCheckpoints(line *segno.Line) {
	newest := line.Commits[len(line.Commits)-1].Checkpoint
	r.forked = newest != nil && newest.Kind == segno.CheckpointBase && newest.Parent != ""
	foundTurn, foundAt := false, false
	r.open, r.members = false, nil // the line may have had a turn before it was moved
	for _, n := range slices.Backward(line.Commits) {
		c := n.Checkpoint
		if c == nil {
			continue
		}
		if !foundAt {
			foundAt, r.at = true, n.ID
		}
		// Other kinds do not change the turn: the base of a fork, or files changed outside turns.
		if !foundTurn && (c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep) {
			foundTurn = true
			r.open = (c.Kind != segno.CheckpointTurn || c.Interrupted) && !r.isFinished()
			r.members = maps.Clone(c.Members)
		}
		if r.open && c.Turn == r.turn && c.Prompt != "" {
			r.prompt = c.Prompt // the oldest checkpoint of the turn has the whole prompt
		}
	}
}

func (a *Agent) loadLine(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	return retry(ctx, a, busyTries, func() (*segno.Line, error) { return a.Store.Load(ctx, at, w) })
}

// isMoved reports whether the thread was moved after a question was asked or answered, or
// after a call began. On another line it may have been answered or have run.
func (r *run) isMoved(ctx context.Context, kind segno.EntryKind, id string) (bool, error) {
	n := r.record(kind, id)
	if n == nil {
		return false, nil // it is only drafted
	}
	if r.forked || r.head.Head != r.head.Tip || n.Thread != r.thread {
		return true, nil
	}
	for c, err := range r.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: r.thread}) {
		if err != nil {
			return false, err
		}
		if c.Seq <= n.Seq {
			break
		}
		// A checkpoint after the head that was read belongs to a concurrent run. If the thread was
		// moved meanwhile, a commit on this head is a conflict.
		if c.Seq <= r.head.Seq && !r.commits[c.ID] {
			return true, nil
		}
	}
	return false, nil
}

// Messages returns the conversation of a thread's line up to a checkpoint, or up to the
// thread's head if at is empty. It returns [segno.KindNotFound] for a checkpoint that is
// neither the thread's nor an ancestor's.
func (a *Agent) Messages(ctx context.Context, thread string, at segno.CommitID) ([]Message, error) {
	key := saver.ThreadKey{Thread: thread}
	load := a.Saver().Load
	if at != "" {
		load = func(ctx context.Context, key saver.ThreadKey) (saver.Snapshot, error) {
			return a.Saver().At(ctx, key, at)
		}
	}
	s, err := load(ctx, key)
	if err != nil {
		return nil, err
	}
	return decodeMessages(key.ID(), s.Messages)
}

func decodeMessages(thread segno.ThreadID, bodies []json.RawMessage) ([]Message, error) {
	all := make([]Message, len(bodies))
	for i, body := range bodies {
		if err := json.Unmarshal(body, &all[i]); err != nil {
			return nil, segno.NewError(segno.KindCorrupt, "read message", fmt.Sprintf("%s, %d", thread, i+1), err)
		}
	}
	return all, nil
}
