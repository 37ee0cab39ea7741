package proxy

import "sync"

// mailboxLimit is how many bytes of an agent's messages wait for a lane before the
// agent has to: what a client does not read must not fill memory.
const mailboxLimit = 8 << 20

// mailbox is the queue of a lane.
type mailbox struct {
	mu     sync.Mutex
	change sync.Cond
	items  []letter
	bytes  int
	wide   bool // the lane waits for the agent, which must not wait for it
	closed bool
}

type letter struct {
	do   func()
	size int
}

func newMailbox() *mailbox {
	b := &mailbox{}
	b.change.L = &b.mu
	return b
}

// put adds a step. With a size it waits for room; what has none never waits.
func (b *mailbox) put(size int, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for size > 0 && b.bytes > mailboxLimit && !b.wide && !b.closed {
		b.change.Wait()
	}
	if b.closed {
		return
	}
	b.items, b.bytes = append(b.items, letter{do, size}), b.bytes+size
	b.change.Broadcast()
}

// run takes steps until the mailbox is closed and empty.
func (b *mailbox) run() {
	for {
		b.mu.Lock()
		for len(b.items) == 0 && !b.closed {
			b.change.Wait()
		}
		items := b.items
		b.items = nil
		b.mu.Unlock()
		if len(items) == 0 {
			return
		}
		for _, l := range items {
			l.do()
			if l.size > 0 {
				b.mu.Lock()
				b.bytes -= l.size
				b.change.Broadcast()
				b.mu.Unlock()
			}
		}
	}
}

// widen lets everything in while the lane waits for the agent.
func (b *mailbox) widen(wide bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wide = wide
	b.change.Broadcast()
}

// close lets the lane end once it has done what is queued.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.change.Broadcast()
}
