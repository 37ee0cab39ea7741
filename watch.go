package segno

import (
	"context"
	"time"
)

// Watcher is implemented by stores that can wake a caller when a thread moves. [Wait] works
// with any store.
type Watcher interface {
	// Wait returns the thread's head as soon as its Seq is above after, immediately if it
	// already is, so that a commit between Head and Wait is not missed. Commits of all
	// processes count, even those that only move pointers. The error has [KindNotFound] if the
	// thread does not exist or is deleted meanwhile, and [KindInvalid] once the store is
	// closed.
	Wait(ctx context.Context, thread ThreadID, after int64) (Head, error)
}

// firstLook and lastLook are the first and the longest pause of [Wait] between polls. The first
// is short, because a thread that has just moved is likely to move again soon.
const firstLook, lastLook = 10 * time.Millisecond, 250 * time.Millisecond

// Wait waits until the Seq of a thread is above after, and returns the thread's head. It polls
// a store that is not a [Watcher], so it can return up to a quarter of a second after the
// commit.
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
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return Head{}, NewError(KindCancelled, "wait for thread", string(thread), ctx.Err())
		}
	}
}
