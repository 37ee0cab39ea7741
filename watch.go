package segno

import (
	"context"
	"time"
)

// Watcher is the ability to say at once that a thread has moved. Who has a store and
// not its type calls [Wait].
type Watcher interface {
	// Wait returns the thread's head as soon as its Seq is above after, at once if it
	// is already: what lands between a Head and a Wait is not missed. Every commit
	// counts, of whatever process, also one that only moves pointers. The error has
	// [KindNotFound] for a thread that is not there or is deleted meanwhile, and
	// [KindInvalid] once the store is closed: Close ends who waits.
	Wait(ctx context.Context, thread ThreadID, after int64) (Head, error)
}

// How long [Wait] rests before it looks again: a thread that moves is likely to move
// again soon.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// Wait waits for a thread to have a commit with a Seq above after, and returns where
// it stands then. A store that is no [Watcher] is asked for the head now and then, so
// that it is known a quarter of a second later at most.
func Wait(ctx context.Context, s Store, thread ThreadID, after int64) (Head, error) {
	if w, ok := s.(Watcher); ok {
		return w.Wait(ctx, thread, after)
	}
	for rest := firstLook; ; rest = min(2*rest, lastLook) {
		head, err := s.Head(ctx, thread)
		if err != nil {
			return Head{}, err
		}
		if head.Seq > after {
			return head, nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Head{}, NewError(KindCancelled, "wait for thread", string(thread), ctx.Err())
		}
	}
}
