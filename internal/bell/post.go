package bell

import (
	"context"
	"time"
)

// Post is where one of those who wait looks out for all, for a store that others
// commit to. Who leaves it gives it to the next.
type Post struct {
	ask   Ask
	free  chan struct{} // holds one while nobody is there
	asked time.Time     // when somebody there asked last
}

// Ask looks at what others have committed and rings the bells of their threads. It is
// called by one at a time. soon says that there is more to come, or likely so; an
// error ends the waiting of who asked.
type Ask func(ctx context.Context) (soon bool, err error)

// NewPost returns a post where nobody is yet.
func NewPost(ask Ask) *Post {
	p := &Post{ask: ask, free: make(chan struct{}, 1)}
	p.free <- struct{}{}
	return p
}

// Rest is a [Rest] that ends when the bell rings.
func (p *Post) Rest(ctx context.Context, rung <-chan struct{}) error {
	select {
	case <-p.free:
	case <-rung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.free <- struct{}{} }()
	timer := time.NewTimer(shortest - time.Since(p.asked))
	defer timer.Stop()
	for pause := shortest; ; pause = min(2*pause, longest) {
		select {
		case <-timer.C:
		case <-rung:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		soon, err := p.ask(ctx)
		p.asked = time.Now()
		if err != nil {
			return err
		}
		if soon {
			pause = shortest
		}
		timer.Reset(pause)
	}
}
