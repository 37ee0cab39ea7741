package proc

import (
	"context"
	"sync"
	"time"
)

// The grace periods limit how long a process may still run after a signal or its deadline. Together
// with the time to report why, both are less than a second.
const (
	signalGrace   = 700 * time.Millisecond
	deadlineGrace = 500 * time.Millisecond
)

// Watchdog ends a process that cannot end normally, because a goroutine is blocked in a
// system call: reading a FIFO, or waiting for a file system that does not answer.
type Watchdog struct {
	mu     sync.Mutex
	timer  *time.Timer
	reason Reason
	end    func(Reason) // nil after Stop
	ignore func() bool  // stops listening for the end of the context
}

// Reason is the reason why a watchdog ends its process.
type Reason string

const (
	BySignal   Reason = "a signal"
	ByDeadline Reason = "the deadline"
)

// Watch starts a watchdog. It calls end, which should not return, if [Watchdog.Stop] is not called
// in time: 0.7 seconds after ctx is done, or 0.5 seconds after the deadline, which counts from now.
// A deadline of 0 means no deadline. The caller must call Stop.
func Watch(ctx context.Context, deadline time.Duration, end func(Reason)) *Watchdog {
	w := &Watchdog{reason: ByDeadline, end: end}
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.Allow(deadline)
	w.ignore = context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reason = BySignal
		w.set(signalGrace)
	})
	return w
}

// Allow sets another deadline, which counts from now. 0 means no deadline. It does not postpone the
// end after a signal.
func (w *Watchdog) Allow(deadline time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.reason == BySignal:
	case deadline > 0:
		w.set(deadline + deadlineGrace)
	default:
		w.timer.Stop()
	}
}

// set lets the watchdog expire after d, unless it was stopped.
func (w *Watchdog) set(d time.Duration) {
	if w.end != nil {
		w.timer.Reset(d)
	}
}

// Stop ends the watchdog. After it returns, the watchdog does not call end.
func (w *Watchdog) Stop() {
	w.ignore()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.end = nil
}

func (w *Watchdog) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end := w.end; end != nil {
		w.end = nil
		end(w.reason)
	}
}
