package agent

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// Decide records decisions and runs nothing: [Agent.Stream] without a prompt then acts on
// them. It works at any time and from any process, also while a run has the thread; that
// run takes the decisions over. All decisions are recorded or none. A decision that is
// recorded already is not an error, so a caller may retry. Errors are
// [segno.KindConflict] with [ErrAnswered] if another decision was first and with
// [ErrTurnOver] if the question waits no more, [segno.KindNotFound] if the thread does not
// ask it, and [segno.KindRefused] if it expired.
func (a *Agent) Decide(ctx context.Context, thread string, decisions ...segno.Decision) error {
	for {
		err := a.decideOnce(ctx, thread, decisions)
		var lost *segno.ConflictError
		raced := errors.As(err, &lost) || segno.KindOf(err) == segno.KindFenced
		if !raced || ctx.Err() != nil {
			return err
		}
	}
}

// decideOnce records decisions on the thread's present head. Its error is a
// [segno.ConflictError] if another writer moved the head first.
func (a *Agent) decideOnce(ctx context.Context, thread string, decisions []segno.Decision) error {
	r := &run{Agent: a, in: Input{Thread: thread}, thread: segno.ThreadID(thread), stop: nobody()}
	if err := r.reload(ctx); err != nil {
		return err
	}
	for _, d := range decisions {
		moved, err := r.moved(ctx, segno.EntryInterrupt, d.Interrupt)
		if err != nil {
			return err
		}
		if i, err := r.pending(d); err == nil && i != nil && moved {
			return segno.Errorf(segno.KindConflict, "decide", d.Interrupt, "the thread was moved since it was asked").WithHint("run the thread without a prompt and answer the question that it asks then")
		}
	}
	if err := r.decide(decisions); err != nil {
		return err
	}
	if len(r.entries) == 0 {
		return nil
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Parent: r.head.Head, Expect: r.head.Head, Epoch: r.head.Epoch, Entries: r.entries}
	_, err := r.commitWithRetry(ctx, c)
	return err
}
