package event

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// listenAfter is the longest time that a hook at a tool call takes, unless it is blocked.
const listenAfter = 20 * time.Millisecond

// SignalContext returns a context that ends with a signal to a hook at a tool call. It
// ignores signals in the first 20 ms, in which such a hook normally is done, because
// listening for them would cost a fifth of its whole time. If a signal comes in that time
// and the hook is blocked, the deadline ends it.
func SignalContext(ctx context.Context) (_ context.Context, stop func()) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	listen := time.AfterFunc(listenAfter, func() {
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
		listen.Stop()
		cancel()
	}
}

// RunBriefly runs a report, which may block, and returns when it is done or after 0.2
// seconds.
func RunBriefly(report func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		report()
	}()
	select {
	case <-done:
	case <-time.After(200 * time.Millisecond):
	}
}
