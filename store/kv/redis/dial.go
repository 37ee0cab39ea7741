package redis

import (
	"cmp"
	"context"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// silence makes a client with these options log nothing. go-redis has one logger for the whole process,
// which writes to standard error and belongs to the program, so this package does not replace it. It
// avoids the occasions for logging instead. If a connection cannot be made, the client gets one that
// fails at its first use. The client then returns the error, as it does for any broken connection, and
// its pool does not log it. Maintenance notifications are not used.
func silence(o *goredis.Options) {
	o.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	dial := goredis.NewDialer(o)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{err}, nil //nolint:nilerr // the first use of the connection returns it
		}
		return conn, nil
	}
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// failedConn is a connection that could not be made.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)         { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)        { return 0, c.err }
func (c failedConn) Close() error                     { return nil }
func (c failedConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c failedConn) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (c failedConn) SetDeadline(time.Time) error      { return nil }
func (c failedConn) SetReadDeadline(time.Time) error  { return nil }
func (c failedConn) SetWriteDeadline(time.Time) error { return nil }
