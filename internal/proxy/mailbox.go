package proxy

import (
	"slices"
	"sync"
)

// mailboxLimit is how many bytes of an agent's messages wait for a lane before the
// agent has to: what a client does not read must not fill memory.
const mailboxLimit = 8 << 20

// letterCost is about what a message takes that waits, beside its line.
const letterCost = 256

// mailbox is the queue of a lane.
type mailbox struct {
	flush func() // writes what steps for updates kept back

	mu     sync.Mutex
	change sync.Cond
	items  []letter
	bytes  int
	wide   int  // how many things the lane waits for the agent for, which must not wait for it
	busy   bool // a step is being made, or the lane has not begun
	closed bool
}

type letter struct {
	do     func()
	size   int
	update bool // it may keep back what it writes
}

func newMailbox(flush func()) *mailbox {
	b := &mailbox{flush: flush, busy: true, wide: 1}
	b.change.L = &b.mu
	return b
}

// put adds a step. With a size it waits for room; what has none never waits. It
// reports false of a mailbox that is closed.
func (b *mailbox) put(size int, do func()) bool { return b.add(letter{do: do, size: size}) }

// putUpdate adds a step that passes on an update and may keep it back: what follows
// at once is written with it. Before any other step, and when there is none, what was
// kept is flushed.
func (b *mailbox) putUpdate(size int, do func()) { b.add(letter{do: do, size: size, update: true}) }

// now makes a step at once, in the goroutine of the caller, if the lane has nothing else
// to do: that saves waking the lane. The step must not wait for anything; what is left to
// do it returns as a letter for the lane. If the lane is busy, l is added instead.
func (b *mailbox) now(l letter, step func() (rest letter)) bool {
	b.mu.Lock()
	if b.busy || b.closed || len(b.items) > 0 {
		b.mu.Unlock()
		return b.add(l)
	}
	b.busy = true
	b.mu.Unlock()
	rest := step()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
	if rest.do != nil {
		if rest.size > 0 {
			rest.size += letterCost
		}
		b.items, b.bytes = slices.Insert(b.items, 0, rest), b.bytes+rest.size
	}
	if len(b.items) > 0 || b.closed {
		b.change.Broadcast()
	}
	return true
}

func (b *mailbox) add(l letter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l.size > 0 && b.bytes > mailboxLimit && b.wide == 0 && !b.closed {
		b.change.Wait()
	}
	if b.closed {
		return false
	}
	if l.size > 0 {
		l.size += letterCost
	}
	b.items, b.bytes = append(b.items, l), b.bytes+l.size
	b.change.Broadcast()
	return true
}

// run takes steps until the mailbox is closed and empty. Before it runs no step is made, and
// everything is let in: a fork keeps what the agent says of it until the client knows the
// fork, and the agent has to open the fork until then.
func (b *mailbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.wide = false, b.wide-1
	for {
		for b.busy || len(b.items) == 0 && !b.closed {
			b.change.Wait()
		}
		if len(b.items) == 0 {
			return
		}
		items := b.items
		b.items, b.busy = nil, true
		b.mu.Unlock()
		b.take(items)
		b.mu.Lock()
		b.busy = false
	}
}

// take makes steps in order.
func (b *mailbox) take(items []letter) {
	for _, l := range items {
		if !l.update {
			b.flush()
		}
		l.do()
		if l.size > 0 {
			b.mu.Lock()
			b.bytes -= l.size
			b.change.Broadcast()
			b.mu.Unlock()
		}
	}
	b.flush()
}

// widen lets everything in while the lane waits for the agent, until narrow.
func (b *mailbox) widen() (narrow func()) {
	b.count(1)
	return func() { b.count(-1) }
}

func (b *mailbox) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wide += n
	b.change.Broadcast()
}

// close lets the lane end once it has done what is queued.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.change.Broadcast()
}
