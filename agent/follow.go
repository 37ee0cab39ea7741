package agent

import (
	"context"
	"iter"
	"slices"

	"github.com/dalsegno/segno"
)

// Follow yields what [Agent.Events] yields, and then what comes, whichever process
// commits it: each durable event once, in order, until ctx ends or the caller stops.
// The end of ctx is no error; one ends the sequence, [segno.KindNotFound] if the
// thread is deleted.
//
// An undo, a redo or a restore may take the thread off the line that was told. Then an
// [EventMoved] comes: Seq is the number it went back to, so that what was told with a
// higher one no longer counts. After it come the present line's events from there on,
// those that were told before among them. Who forgets at each of them what it says
// always has what Events would yield, and the last number he has is the since to go on
// from: if the thread left that number's line meanwhile, an EventMoved to 0 is the
// first event, and the whole line follows. Moves that take each other back before they
// are noticed are not told.
func (a *Agent) Follow(ctx context.Context, thread string, since int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{Agent: a, thread: segno.ThreadID(thread), told: since}
		if err := f.follow(ctx, yield); err != nil && ctx.Err() == nil {
			yield(Event{}, err)
		}
	}
}

// follower is who follows a thread, and how far.
type follower struct {
	*Agent
	thread segno.ThreadID
	sub    string
	told   int64          // the number up to which the line is told
	at     segno.CommitID // the end of the line that is told; "" before the first look
}

// follow returns nil if the caller has stopped.
func (f *follower) follow(ctx context.Context, yield func(Event, error) bool) error {
	head, err := f.Store.Head(ctx, f.thread)
	if err != nil {
		return err
	}
	if f.sub, err = f.partName(ctx, f.thread); err != nil {
		return err
	}
	for {
		if more, err := f.catchUp(ctx, head, yield); err != nil || !more {
			return err
		}
		if head, err = segno.Wait(ctx, f.Store, f.thread, head.Seq); err != nil {
			return err
		}
	}
}

// catchUp tells what is new at head. It reports whether the caller wants more.
func (f *follower) catchUp(ctx context.Context, head segno.Head, yield func(Event, error) bool) (more bool, err error) {
	if head.Head == f.at {
		return true, nil
	}
	line, err := f.since(ctx, head, f.told/perCommit)
	if err != nil {
		return false, err
	}
	if !f.on(line) {
		if f.told, err = f.parting(ctx, head); err != nil {
			return false, err
		}
		moved := Event{Kind: EventMoved, Seq: f.told, Thread: f.thread, Agent: f.sub, Saved: head.Head, Time: f.Now()}
		if !yield(moved, nil) {
			return false, nil
		}
		if line, err = f.since(ctx, head, f.told/perCommit); err != nil {
			return false, err
		}
	}
	f.at = head.Head
	for i := range line.Commits {
		n := &line.Commits[i]
		if n.Thread != f.thread || n.Seq < f.told/perCommit {
			continue
		}
		for _, e := range eventsOf(n, f.sub) {
			if e.Seq <= f.told {
				continue
			}
			if !yield(e, nil) {
				return false, nil
			}
			f.told = e.Seq
		}
	}
	return true, nil
}

// on reports whether a line, loaded from the commit of f.told on, has that commit, and
// so all that was told.
func (f *follower) on(line *segno.Line) bool {
	seq := f.told / perCommit
	return seq == 0 || slices.ContainsFunc(line.Commits, func(n segno.Node) bool { return n.Thread == f.thread && n.Seq == seq })
}

// parting is the number up to which the line at head is the one that was told.
func (f *follower) parting(ctx context.Context, head segno.Head) (int64, error) {
	if f.at == "" {
		return 0, nil // which line since was on is not known
	}
	before, err := f.Store.Load(ctx, f.at, segno.Window{})
	if segno.KindOf(err) == segno.KindNotFound {
		return 0, nil // it was collected
	}
	if err != nil {
		return 0, err
	}
	was := map[segno.CommitID]bool{}
	for _, n := range before.Commits {
		was[n.ID] = true
	}
	now, err := f.Store.Load(ctx, head.Head, segno.Window{})
	if err != nil {
		return 0, err
	}
	for i := len(now.Commits) - 1; i >= 0; i-- {
		if n := &now.Commits[i]; was[n.ID] && n.Thread == f.thread {
			return (n.Seq+1)*perCommit - 1, nil
		}
	}
	return 0, nil
}
