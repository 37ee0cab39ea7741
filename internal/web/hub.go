package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// hub sends events about changed threads to the open streams. It follows the store once for all
// streams, and only while there is a stream.
type hub struct {
	server *Server
	mu     sync.Mutex
	subs   map[*subscription]bool
	dirty  map[segno.ThreadID]bool // changed since the last round of publish
	wake   chan struct{}           // ready while dirty is not empty
	stop   context.CancelFunc      // ends the goroutines; nil without any
	done   *sync.WaitGroup
	begun  chan struct{} // closed when the goroutines know the state from which they report changes
}

// subscription is one stream.
type subscription struct {
	mu      sync.Mutex
	pending map[segno.ThreadID]threadEvent
	ready   chan struct{}   // ready while events are pending
	begun   <-chan struct{} // closed when no later change is missed
}

// The limits of a hub.
const (
	maxStreams      = 64
	maxFollowed     = 200 // threads, the most recently changed ones
	publishInterval = 100 * time.Millisecond
	turnsInterval   = 300 * time.Millisecond
	threadsInterval = time.Second
)

func newHub(s *Server) *hub {
	return &hub{server: s, subs: map[*subscription]bool{}, dirty: map[segno.ThreadID]bool{}, wake: make(chan struct{}, 1)}
}

// subscribe opens a stream. It uses the values of ctx and ignores its cancellation.
func (h *hub) subscribe(ctx context.Context) (*subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) >= maxStreams {
		return nil, segno.Errorf(segno.KindBusy, "open stream", "", "the server has %d streams", maxStreams).WithHint("close other pages of this server")
	}
	if h.stop == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		h.stop, h.done, h.begun = cancel, &sync.WaitGroup{}, make(chan struct{})
		begin, begun := &sync.WaitGroup{}, h.begun
		begin.Add(2)
		h.done.Go(func() { h.publish(ctx) })
		h.done.Go(func() { h.followThreads(ctx, begin) })
		h.done.Go(func() { h.followTurns(ctx, begin) })
		h.done.Go(func() {
			begin.Wait()
			close(begun)
		})
	}
	sub := &subscription{pending: map[segno.ThreadID]threadEvent{}, ready: make(chan struct{}, 1), begun: h.begun}
	h.subs[sub] = true
	return sub, nil
}

// unsubscribe closes a stream. The last one ends the goroutines and waits for them.
func (h *hub) unsubscribe(sub *subscription) {
	h.mu.Lock()
	delete(h.subs, sub)
	stop, done := h.stop, h.done
	if len(h.subs) > 0 {
		stop = nil
	}
	if stop != nil {
		h.stop = nil
	}
	h.mu.Unlock()
	if stop != nil {
		stop()
		done.Wait()
	}
}

// take returns the pending events and removes them.
func (sub *subscription) take() []threadEvent {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	events := slices.Collect(maps.Values(sub.pending))
	clear(sub.pending)
	return events
}

// put replaces the pending event of a thread.
func (sub *subscription) put(e threadEvent) {
	sub.mu.Lock()
	sub.pending[e.Thread] = e
	sub.mu.Unlock()
	signal(sub.ready)
}

// signal puts a value into a channel with room for one, unless the channel has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// mark records that threads changed.
func (h *hub) mark(ids ...segno.ThreadID) {
	h.mu.Lock()
	for _, id := range ids {
		h.dirty[id] = true
	}
	h.mu.Unlock()
	if len(ids) > 0 {
		signal(h.wake)
	}
}

// publish sends events about changed threads, at most one per interval for each thread.
func (h *hub) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		h.mu.Lock()
		changed := slices.Collect(maps.Keys(h.dirty))
		clear(h.dirty)
		subs := slices.Collect(maps.Keys(h.subs))
		h.mu.Unlock()
		if now, err := h.server.activity(ctx); err == nil {
			for _, id := range changed {
				e, err := h.server.event(ctx, id, now)
				if kind := segno.KindOf(err); kind == segno.KindBusy || kind == segno.KindIO {
					h.mark(id) // as below: there may be no further change of this thread
				}
				if err != nil {
					continue // the client's next read reports it
				}
				for _, sub := range subs {
					sub.put(e)
				}
			}
		} else if ctx.Err() == nil {
			h.mark(changed...) // the store is busy or unavailable: try again
		}
		if !pause(ctx, publishInterval) {
			return
		}
	}
}

// pause waits for d, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// followThreads follows the most recently changed threads, including new ones. It is done with begin when it has the heads of the
// first ones.
func (h *hub) followThreads(ctx context.Context, begin *sync.WaitGroup) {
	var followers sync.WaitGroup
	defer followers.Wait()
	followed := map[segno.ThreadID]context.CancelFunc{}
	for first := true; ; first = false {
		ids := map[segno.ThreadID]bool{}
		complete := true
		for t, err := range h.server.Store.Threads(ctx, segno.ThreadQuery{Limit: maxFollowed}) {
			if err != nil {
				complete = false
				break
			}
			ids[t.ID] = true
			if followed[t.ID] != nil {
				continue
			}
			began := func() {}
			if first {
				begin.Add(1)
				began = begin.Done
			} else {
				h.mark(t.ID)
			}
			at, cancel := context.WithCancel(ctx)
			followed[t.ID] = cancel
			followers.Go(func() { h.follow(at, t.ID, began) })
		}
		if first {
			begin.Done()
		}
		for id, cancel := range followed {
			if complete && !ids[id] {
				cancel()
				delete(followed, id)
				h.mark(id) // it may be deleted
			}
		}
		if !pause(ctx, threadsInterval) {
			for _, cancel := range followed {
				cancel()
			}
			return
		}
	}
}

// follow marks a thread after each of its commits. It calls began when it knows the head.
func (h *hub) follow(ctx context.Context, id segno.ThreadID, began func()) {
	store := h.server.Store
	head, err := store.Head(ctx, id)
	began()
	for ctx.Err() == nil {
		after := head.Seq
		if err == nil {
			head, err = segno.Wait(ctx, store, id, after)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			h.mark(id)
		case segno.KindOf(err) == segno.KindNotFound, segno.KindOf(err) == segno.KindInvalid: // deleted, or the store is closed
			h.mark(id)
			return
		default:
			if !pause(ctx, threadsInterval) {
				return
			}
			head, err = store.Head(ctx, id)
			h.mark(id)
		}
	}
}

// followTurns marks the threads with a turn that begins, makes a call, or ends. The store cannot report
// this, because a turn is not in the store before its end. It is done with begin when it has read the turns once.
func (h *hub) followTurns(ctx context.Context, begin *sync.WaitGroup) {
	var before map[segno.ThreadID]string
	for first := true; ; first = false {
		if now, err := h.server.activity(ctx); err == nil {
			signs := now.signs()
			if before != nil {
				h.mark(differing(before, signs)...)
			}
			before = signs
		}
		if first {
			begin.Done()
		}
		if !pause(ctx, turnsInterval) {
			return
		}
	}
}

// signs returns a text for each active thread. The text changes when the thread's state or its open
// turn changes.
func (a *activity) signs() map[segno.ThreadID]string {
	signs := map[segno.ThreadID]string{}
	for id, phase := range a.phases {
		signs[id] = fmt.Sprint(phase, len(a.interrupts[id]))
	}
	for id, t := range a.turns {
		done := 0
		for _, c := range t.Calls {
			if c.Done {
				done++
			}
		}
		signs[id] += fmt.Sprint(a.state(id), t.Start, t.CallsTotal, done, len(t.Tasks), t.Ended)
	}
	return signs
}

// differing returns the keys with different values in two maps.
func differing(a, b map[segno.ThreadID]string) (ids []segno.ThreadID) {
	for id, sign := range a {
		if b[id] != sign {
			ids = append(ids, id)
		}
	}
	for id := range b {
		if _, ok := a[id]; !ok {
			ids = append(ids, id)
		}
	}
	return ids
}
