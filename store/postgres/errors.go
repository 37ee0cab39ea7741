package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/jackc/pgx/v5/pgconn"
)

func notFound(op, name string) error { return segno.NewError(segno.KindNotFound, op, name, nil) }

// fail returns an error with its kind. An error that already has one stays the same.
func (s *Store) fail(ctx context.Context, op, name string, err error) error {
	var known *segno.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	out := segno.NewError(kindOf(err), op, name, oneLine(err))
	if ctx.Err() != nil && (out.Kind == segno.KindBusy || out.Kind == segno.KindIO) {
		out.Kind, out.Err = segno.KindCancelled, ctx.Err()
	}
	var pg *pgconn.PgError
	switch isPg := errors.As(err, &pg); {
	case out.Kind == segno.KindCancelled && ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		out.Err = sqlstore.WithCause(out.Err, ctx.Err())
	case isPg && pg.Code == "53100":
		out.Err = sqlstore.WithCause(out.Err, syscall.ENOSPC)
	}
	switch out.Kind {
	case segno.KindBusy:
		out.Hint = "try again; the database is busy with other writers"
	case segno.KindIO:
		out.Hint = "check that the database can be reached, then try again"
	}
	return out
}

// oneLine removes the line breaks from an error: the driver writes one before each address that it tried.
func oneLine(err error) error {
	text := err.Error()
	if !strings.Contains(text, "\n") {
		return err
	}
	return sqlstore.WithCause(errors.New(strings.Join(strings.Fields(text), " ")), err)
}

func kindOf(err error) segno.Kind {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		return kindOfCode(pg.Code)
	case errors.Is(err, record.ErrDamaged):
		return segno.KindCorrupt
	case errors.Is(err, errRetry):
		return segno.KindBusy
	case isConnectionError(err):
		return segno.KindIO
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.KindCancelled
	}
	return segno.KindInternal
}

// kindOfCode classifies the codes of PostgreSQL's appendix A.
func kindOfCode(code string) segno.Kind {
	switch code {
	case "57014":
		return segno.KindCancelled
	case "40001", "40P01", "55P03", "23505", "53300", "57P03":
		return segno.KindBusy
	case "25006", "42501":
		return segno.KindRefused // the server is a standby, or the user lacks the privilege
	case "XX001", "XX002":
		return segno.KindCorrupt
	case "54000", "54001", "22P05", "22021":
		return segno.KindInvalid
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "57", "58", "28", "3D":
		return segno.KindIO
	}
	return segno.KindInternal
}

// isConnectionError reports whether a connection was lost or could not be made.
func isConnectionError(err error) bool {
	var network net.Error
	var errno syscall.Errno
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.As(err, &network) || errors.As(err, &errno) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// isTransient reports whether a retry may succeed.
func isTransient(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01", "55P03", "23505", "53300", "57014", "57P01", "57P02", "57P03", "57P05", "25P03":
			return true
		}
		return strings.HasPrefix(pg.Code, "08")
	}
	return errors.Is(err, errRetry) || isConnectionError(err)
}

// isNotExecuted reports whether the statement that returned err was certainly not executed and will not be:
// the server reported the error, or never received the statement.
func isNotExecuted(err error) bool {
	var aborted abortedError
	var pg *pgconn.PgError
	var commit commitError
	if errors.As(err, &aborted) {
		return true
	}
	if errors.As(err, &pg) {
		// A server that shuts down may send its error after the commit.
		return !strings.HasPrefix(pg.Code, "57P") && !strings.HasPrefix(pg.Code, "08")
	}
	return !errors.As(err, &commit) && pgconn.SafeToRetry(err) || errors.Is(err, errRetry)
}

// errRetry means that the reason why a commit was not applied no longer exists. The store retries the
// commit. The caller gets this error only if other writers were always first until the end of
// [Options.Patience].
var errRetry = errors.New("too many conflicts with other writers")

// withRetry repeats f while its error is transient, until [Options.Patience] or ctx ends. f must be safe to
// repeat.
func (s *Store) withRetry(ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		err := f(ctx)
		if err == nil || !isTransient(err) || ctx.Err() != nil || time.Since(start) > s.options.Patience {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
