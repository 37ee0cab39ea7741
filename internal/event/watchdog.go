package event

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Graces are how long a process may still run after a signal or its deadline. Together
// with what it takes to say why, both are less than a second.
const (
	signalGrace   = 700 * time.Millisecond
	deadlineGrace = 500 * time.Millisecond
)

// Watchdog ends a process that cannot end in order, because a goroutine is blocked in a
// system call: reading a FIFO, or waiting for a file system that does not answer.
type Watchdog struct {
	allow chan time.Duration
	stop  chan struct{}
	done  chan struct{}
}

// Reason is why a watchdog ends its process.
type Reason string

// The reasons.
const (
	BySignal   Reason = "a signal"
	ByDeadline Reason = "the deadline"
)

// Watch starts a watchdog. It calls end, which should not return, if [Watchdog.Stop] is
// not called in time: 0.7 seconds after ctx is done, or 0.5 seconds after the deadline,
// which counts from now. A deadline of 0 is none. The caller must call Stop.
func Watch(ctx context.Context, deadline time.Duration, end func(Reason)) *Watchdog {
	w := &Watchdog{allow: make(chan time.Duration), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run(ctx, deadline, end)
	return w
}

// Allow sets another deadline, counted from now. A signal keeps its effect.
func (w *Watchdog) Allow(deadline time.Duration) {
	select {
	case w.allow <- deadline:
	case <-w.done:
	}
}

// Stop ends the watchdog. When it returns, end is not called any more.
func (w *Watchdog) Stop() {
	close(w.stop)
	<-w.done
}

func (w *Watchdog) run(ctx context.Context, deadline time.Duration, end func(Reason)) {
	defer close(w.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	set := func(d time.Duration) {
		if timer.Stop(); d > 0 {
			timer.Reset(d + deadlineGrace)
		}
	}
	set(deadline)
	why, signal := ByDeadline, ctx.Done()
	for {
		select {
		case <-w.stop:
			return
		case d := <-w.allow:
			if why == ByDeadline {
				set(d)
			}
		case <-signal:
			why, signal = BySignal, nil
			timer.Reset(signalGrace)
		case <-timer.C:
			end(why)
			return
		}
	}
}

// quick is how long a hook at a tool boundary takes at most, unless it is blocked.
const quick = 20 * time.Millisecond

// SignalContext returns a context that ends with a signal to a hook at a tool boundary. Such
// a hook is done in a few milliseconds and only then ends: signals are ignored at first,
// because listening for them costs a fifth of its whole time. One that is lost while the
// hook is already blocked leaves its end to the deadline.
func SignalContext(ctx context.Context) (_ context.Context, stop func()) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(quick, func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		late.Stop()
		cancel()
	}
}

// lastWords is how long a report of a process that is being ended may take.
const lastWords = 200 * time.Millisecond

// RunBriefly runs report, which may block, and returns when it is done or took too long.
func RunBriefly(report func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		report()
	}()
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
