package notify

import (
	"context"
	"time"
)

// SharedPoller polls for the commits of other processes. However many callers wait, one of them
// polls on behalf of all; when it returns, another one takes over.
type SharedPoller struct {
	poll   func(context.Context) (more bool, err error)
	free   chan struct{} // holds a token while no caller polls
	polled time.Time     // when poll was last called
}

// NewSharedPoller returns a poller. poll looks for the commits of other processes and notifies
// their threads. It is called by one caller at a time. more reports that further commits are likely
// soon. An error ends the waiting of the caller that polled.
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
