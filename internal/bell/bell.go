// Package bell lets a store wake who waits for a thread.
//
// A store rings a thread's bell after each of its commits. Who waits takes the bell
// first and looks at the head then: what lands after the look rings a bell that is
// held already, so no wake-up is lost.
package bell

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// Bells are the bells of a store's threads. The zero value works. All methods may be
// called at once.
type Bells struct {
	mu      sync.Mutex
	threads map[segno.ThreadID]*bell
}

// bell rings once; the next ring is another bell's.
type bell struct {
	rung  chan struct{} // closed when it rings
	holds int           // by how many it is held
	after int64         // the lowest seq that one of them waits to be passed
}

// Look reads where a thread stands.
type Look func(ctx context.Context, thread segno.ThreadID) (segno.Head, error)

// Rest returns without an error when it is time to look again: when rung is closed,
// or earlier. Its error ends the waiting.
type Rest func(ctx context.Context, rung <-chan struct{}) error

// Ring wakes who waits for a thread. What they shall see must be visible before.
func (b *Bells) Ring(thread segno.ThreadID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.threads[thread]; x != nil {
		close(x.rung)
		delete(b.threads, thread)
	}
}

// RingAll wakes all who wait.
func (b *Bells) RingAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.threads {
		close(x.rung)
	}
	b.threads = nil
}

// Waiting are the threads that somebody waits for, each with a seq above which he wants
// to be woken.
func (b *Bells) Waiting() map[segno.ThreadID]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[segno.ThreadID]int64, len(b.threads))
	for id, x := range b.threads {
		all[id] = x.after
	}
	return all
}

// hold takes a thread's bell, which must be dropped.
func (b *Bells) hold(thread segno.ThreadID, after int64) *bell {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.threads[thread]
	if x == nil {
		x = &bell{rung: make(chan struct{}), after: after}
		if b.threads == nil {
			b.threads = map[segno.ThreadID]*bell{}
		}
		b.threads[thread] = x
	}
	x.holds++
	x.after = min(x.after, after)
	return x
}

func (b *Bells) drop(thread segno.ThreadID, x *bell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.holds--; x.holds == 0 && b.threads[thread] == x {
		delete(b.threads, thread)
	}
}

// Wait is [segno.Watcher]'s, for a store whose head look reads.
func (b *Bells) Wait(ctx context.Context, thread segno.ThreadID, after int64, look Look, rest Rest) (segno.Head, error) {
	for {
		head, err := b.once(ctx, thread, after, look, rest)
		if err != nil {
			return segno.Head{}, err
		}
		if head.Seq > after {
			return head, nil
		}
	}
}

// once looks, and if the thread has not moved rests until it is time to look again.
func (b *Bells) once(ctx context.Context, thread segno.ThreadID, after int64, look Look, rest Rest) (segno.Head, error) {
	x := b.hold(thread, after)
	defer b.drop(thread, x)
	head, err := look(ctx, thread)
	if err != nil || head.Seq > after {
		return head, err
	}
	err = rest(ctx, x.rung)
	if ctx.Err() != nil {
		err = segno.NewError(segno.KindCancelled, "wait for thread", string(thread), ctx.Err())
	}
	return head, err
}

// Rung rests until the bell rings: for a store that hears of every commit.
func Rung(ctx context.Context, rung <-chan struct{}) error {
	select {
	case <-rung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	shortest = 10 * time.Millisecond
	longest  = 250 * time.Millisecond
)

// NowAndThen is a rest that ends when the bell rings, or after a while that grows
// with each: for a store that others commit to, too.
func NowAndThen() Rest {
	pause := shortest
	return func(ctx context.Context, rung <-chan struct{}) error {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		pause = min(2*pause, longest)
		select {
		case <-timer.C:
			return nil
		case <-rung:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
