package proxy

import (
	"slices"
	"sync"
)

const (
	mailboxLimit = 8 << 20 // bytes of waiting messages above which the sender has to wait
	stepOverhead = 256     // approximate memory of a waiting step, beside its message
)

// mailbox is the queue of a session: its steps run one at a time, in order. A full mailbox
// blocks the reader of the agent, so that a client that does not read cannot fill the memory.
type mailbox struct {
	flush func() // writes the lines that update steps held back

	mu        sync.Mutex
	change    sync.Cond
	steps     []step
	bytes     int
	unlimited int  // while it is above 0, the limit does not apply
	busy      bool // a step is running, or run was not called yet
	closed    bool
}

// step is one unit of a session's work.
type step struct {
	do     func()
	size   int  // of the message that it handles; 0 if adding the step must not block
	update bool // it may hold back its line, see [mailbox.addUpdate]
}

func newMailbox(flush func()) *mailbox {
	b := &mailbox{flush: flush, busy: true, unlimited: 1}
	b.change.L = &b.mu
	return b
}

// add adds a step. If the size is above 0 and the mailbox is full, add waits. It returns
// false if the mailbox is closed.
func (b *mailbox) add(size int, do func()) bool { return b.push(step{do: do, size: size}) }

// addUpdate adds a step that forwards an update. The step may hold the update back, to write
// it together with the next one. The mailbox flushes before any other step and when it is
// empty.
func (b *mailbox) addUpdate(size int, do func()) { b.push(step{do: do, size: size, update: true}) }

// addOrRun calls run in the goroutine of the caller if the mailbox is idle, else it adds s.
// run must not block: it returns the work that may block as rest, a step for the mailbox. The
// mailbox is busy while run runs, so that steps that other goroutines add meanwhile come
// after it. rest continues the step and therefore comes before them.
func (b *mailbox) addOrRun(s step, run func() (rest step)) bool {
	b.mu.Lock()
	if b.busy || b.closed || len(b.steps) > 0 {
		b.mu.Unlock()
		return b.push(s)
	}
	b.busy = true
	b.mu.Unlock()
	rest := run()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
	if rest.do != nil {
		if rest.size > 0 {
			rest.size += stepOverhead
		}
		b.steps, b.bytes = slices.Insert(b.steps, 0, rest), b.bytes+rest.size
	}
	if len(b.steps) > 0 || b.closed {
		b.change.Broadcast()
	}
	return true
}

// push adds a step. It waits while the mailbox is full, and returns false if it is closed.
func (b *mailbox) push(s step) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s.size > 0 && b.bytes > mailboxLimit && b.unlimited == 0 && !b.closed {
		b.change.Wait()
	}
	if b.closed {
		return false
	}
	if s.size > 0 {
		s.size += stepOverhead
	}
	b.steps, b.bytes = append(b.steps, s), b.bytes+s.size
	b.change.Broadcast()
	return true
}

// run executes steps until the mailbox is closed and empty. Before the call of run, no step
// is executed and the limit does not apply: the updates of a fork wait in its mailbox until
// the client knows the fork, and the agent must not block before that.
func (b *mailbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.unlimited = false, b.unlimited-1
	for {
		for b.busy || len(b.steps) == 0 && !b.closed {
			b.change.Wait()
		}
		if len(b.steps) == 0 {
			return
		}
		steps := b.steps
		b.steps, b.busy = nil, true
		b.mu.Unlock()
		b.runAll(steps)
		b.mu.Lock()
		b.busy = false
	}
}

func (b *mailbox) runAll(steps []step) {
	for _, s := range steps {
		if !s.update {
			b.flush()
		}
		s.do()
		if s.size > 0 {
			b.mu.Lock()
			b.bytes -= s.size
			b.change.Broadcast()
			b.mu.Unlock()
		}
	}
	b.flush()
}

// liftLimit lifts the limit until the returned function is called. A session that waits for
// the agent lifts it, because the agent may wait for its output to be read.
func (b *mailbox) liftLimit() (restore func()) {
	change := func(n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unlimited += n
		b.change.Broadcast()
	}
	change(1)
	return func() { change(-1) }
}

// close makes run return after the waiting steps.
func (b *mailbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.change.Broadcast()
}
