// Package notify lets a store wake the callers of [segno.Watcher] that wait for a thread.
//
// A store calls [Notifier.Notify] after each of its commits. A waiting caller subscribes first and
// reads the head after that. So a commit that the read missed notifies an existing subscription,
// and no wake-up is lost.
package notify

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// Notifier has the subscriptions to a store's threads. The zero value is ready to use. All methods
// are safe for concurrent use.
type Notifier struct {
	mu      sync.Mutex
	threads map[segno.ThreadID]*subscription
}

// subscription is shared by the callers that wait for one thread. It serves only one notification.
type subscription struct {
	notified chan struct{} // closed by the notification
	callers  int
	after    int64 // the lowest seq above which one of the callers wants to be woken
}

// Pause returns nil when it is time to read the head again: when notified is closed, or earlier.
// Its error ends the waiting.
type Pause func(ctx context.Context, notified <-chan struct{}) error

// Notify wakes the callers that wait for a thread. The change must already be visible to readers.
func (n *Notifier) Notify(thread segno.ThreadID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sub := n.threads[thread]; sub != nil {
		close(sub.notified)
		delete(n.threads, thread)
	}
}

// NotifyAll wakes all callers.
func (n *Notifier) NotifyAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, sub := range n.threads {
		close(sub.notified)
	}
	n.threads = nil
}

// Waiting returns the threads that callers wait for, each with the lowest seq above which a caller
// wants to be woken.
func (n *Notifier) Waiting() map[segno.ThreadID]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make(map[segno.ThreadID]int64, len(n.threads))
	for id, sub := range n.threads {
		all[id] = sub.after
	}
	return all
}

func (n *Notifier) subscribe(thread segno.ThreadID, after int64) *subscription {
	n.mu.Lock()
	defer n.mu.Unlock()
	sub := n.threads[thread]
	if sub == nil {
		sub = &subscription{notified: make(chan struct{}), after: after}
		if n.threads == nil {
			n.threads = map[segno.ThreadID]*subscription{}
		}
		n.threads[thread] = sub
	}
	sub.callers++
	sub.after = min(sub.after, after)
	return sub
}

func (n *Notifier) unsubscribe(thread segno.ThreadID, sub *subscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sub.callers--; sub.callers == 0 && n.threads[thread] == sub {
		delete(n.threads, thread)
	}
}

// Wait implements [segno.Watcher] for a store and reads heads with read. It returns the first head of
// the thread whose seq exceeds after. It subscribes before each read, so that no commit between the
// read and the pause is missed.
func (n *Notifier) Wait(ctx context.Context, thread segno.ThreadID, after int64,
	read func(context.Context, segno.ThreadID) (segno.Head, error), pause Pause) (segno.Head, error) {
	for {
		sub := n.subscribe(thread, after)
		head, err := read(ctx, thread)
		isNew := head.Seq > after
		if err == nil && !isNew {
			if err = pause(ctx, sub.notified); ctx.Err() != nil {
				err = segno.NewError(segno.KindCancelled, "wait for thread", string(thread), ctx.Err())
			}
		}
		n.unsubscribe(thread, sub)
		if err != nil {
			return segno.Head{}, err
		}
		if isNew {
			return head, nil
		}
	}
}

// The interval between two polls starts at minInterval and doubles up to maxInterval.
const (
	minInterval = 10 * time.Millisecond
	maxInterval = 250 * time.Millisecond
)

// UntilNotified is a [Pause] for a store that is notified of every commit.
func UntilNotified(ctx context.Context, notified <-chan struct{}) error {
	_, err := pauseUntil(ctx, notified, nil)
	return err
}

// Poll returns a [Pause] that ends at a notification, or after an interval that grows with each
// call. It is for a store to which other processes commit.
func Poll() Pause {
	interval := minInterval
	return func(ctx context.Context, notified <-chan struct{}) error {
		timer := time.NewTimer(interval)
		defer timer.Stop()
		interval = min(2*interval, maxInterval)
		_, err := pauseUntil(ctx, notified, timer.C)
		return err
	}
}

// pauseUntil returns when notified is closed, when the timer fires, or when ctx ends.
func pauseUntil(ctx context.Context, notified <-chan struct{}, timer <-chan time.Time) (fired bool, err error) {
	select {
	case <-timer:
		return true, nil
	case <-notified:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
