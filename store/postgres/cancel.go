package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// betweenCancels is the time between two requests to cancel a statement. After the last one, a connection is not used
// for as long, since the server may deliver a request to the next statement.
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

	stop  context.CancelFunc
	ended chan struct{}
}

// HandleCancel is called when the context of a statement ends.
func (c *canceller) HandleCancel(ctx context.Context) {
	deadline := time.Now().Add(c.patience)
	_ = c.conn.Conn().SetDeadline(deadline) // it fails if the connection is closed, and then the statement has ended
	ctx, stop := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	c.stop, c.ended = stop, make(chan struct{})
	go func() {
		defer close(c.ended)
		for ctx.Err() == nil {
			_ = c.conn.CancelRequest(ctx) // an error is as good as a lost request
			time.Sleep(betweenCancels)
		}
	}()
}

// HandleUnwatchAfterCancel is called when the statement has ended after HandleCancel.
func (c *canceller) HandleUnwatchAfterCancel() {
	c.stop()
	<-c.ended
	_ = c.conn.Conn().SetDeadline(time.Time{})
}
