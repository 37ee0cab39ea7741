package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// betweenCancels is the time between two requests to cancel a statement. The connection is used again that long after the
// last one, since a signal that arrives late would cancel the next statement.
const betweenCancels = 100 * time.Millisecond

// cancelWithin makes the server cancel a statement when its context ends, and waits up to patience for the server's
// answer. If the client only stopped waiting, the server might still execute the statement.
func cancelWithin(patience time.Duration) func(*pgconn.PgConn) ctxwatch.Handler {
	return func(c *pgconn.PgConn) ctxwatch.Handler { return &canceller{conn: c, patience: patience} }
}

// A canceller repeats its request until the statement ends. The server ignores a request that arrives between two
// statements of a batch (DoingCommandRead in PostgreSQL's postgres.c), so one request may cancel nothing, and
// [pgconn.CancelRequestContextWatcherHandler] sends one.
type canceller struct {
	conn     *pgconn.PgConn
	patience time.Duration

	stopped atomic.Bool
	ended   chan struct{}
}

// HandleCancel is called when the context of a statement ends.
func (c *canceller) HandleCancel(ctx context.Context) {
	deadline := time.Now().Add(c.patience)
	_ = c.conn.Conn().SetDeadline(deadline) // it fails if the connection is closed, and then the statement has ended
	ctx, end := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	c.stopped.Store(false)
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		defer end()
		for ctx.Err() == nil && !c.stopped.Load() {
			// It returns when the server has sent a signal, also if the statement has ended meanwhile. An error is as
			// good as a request that the server ignored.
			_ = c.conn.CancelRequest(ctx)
			time.Sleep(betweenCancels)
		}
	}()
}

// HandleUnwatchAfterCancel is called when the statement has ended after HandleCancel.
func (c *canceller) HandleUnwatchAfterCancel() {
	c.stopped.Store(true)
	<-c.ended
	_ = c.conn.Conn().SetDeadline(time.Time{})
}
