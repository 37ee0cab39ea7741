package notify

import (
	"context"
	"time"
)

// SharedPoller polls for the commits of other processes. However many callers wait, only one of
// them polls, on behalf of all. When it returns, another caller takes over.
type SharedPoller struct {
	poll   func(context.Context) (more bool, err error)
	free   chan struct{} // holds a token while no caller polls
	polled time.Time     // when poll was last called
}

// NewSharedPoller returns a poller. poll must look for commits of other processes and notify their
// threads. Only one goroutine at a time calls it. more means that further commits are likely soon.
// An error ends the wait of the caller that polled.
func NewSharedPoller(poll func(context.Context) (more bool, err error)) *SharedPoller {
	p := &SharedPoller{poll: poll, free: make(chan struct{}, 1)}
	p.free <- struct{}{}
	return p
}

// Pause is a [Pause] that ends at a notification.
func (p *SharedPoller) Pause(ctx context.Context, notified <-chan struct{}) error {
	select {
	case <-p.free:
	case <-notified:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.free <- struct{}{} }()
	timer := time.NewTimer(minInterval - time.Since(p.polled))
	defer timer.Stop()
	for interval := minInterval; ; interval = min(2*interval, maxInterval) {
		if fired, err := pauseUntil(ctx, notified, timer.C); err != nil || !fired {
			return err
		}
		more, err := p.poll(ctx)
		p.polled = time.Now()
		if err != nil {
			return err
		}
		if more {
			interval = minInterval
		}
		timer.Reset(interval)
	}
}
