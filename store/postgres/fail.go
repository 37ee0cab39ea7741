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
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5/pgconn"
)

// fail gives an error its kind. Errors that have one pass through.
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
		out.Err = &because{out.Err, ctx.Err()}
	case isPg && pg.Code == "53100":
		out.Err = &because{out.Err, syscall.ENOSPC}
	}
	switch out.Kind {
	case segno.KindBusy:
		out.Hint = "try again; the database is busy with other writers"
	case segno.KindIO:
		out.Hint = "check that the database can be reached, then try again"
	}
	return out
}

// because is an error of the server with what caused it, for errors.Is.
type because struct{ err, cause error }

func (b *because) Error() string   { return b.err.Error() }
func (b *because) Unwrap() []error { return []error{b.err, b.cause} }

// oneLine takes the line breaks out of an error: a driver puts one before each address
// it tried.
func oneLine(err error) error {
	text := err.Error()
	if !strings.Contains(text, "\n") {
		return err
	}
	return &flat{strings.Join(strings.Fields(text), " "), err}
}

type flat struct {
	text string
	err  error
}

func (f *flat) Error() string { return f.text }
func (f *flat) Unwrap() error { return f.err }

func kindOf(err error) segno.Kind {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return serverKind(pg.Code)
	}
	switch {
	case errors.Is(err, record.ErrDamaged):
		return segno.KindCorrupt
	case errors.Is(err, errAgain):
		return segno.KindBusy
	case lost(err):
		return segno.KindIO
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.KindCancelled
	}
	return segno.KindInternal
}

// serverKind sorts the codes of PostgreSQL's appendix A.
func serverKind(code string) segno.Kind {
	switch code {
	case "57014":
		return segno.KindCancelled
	case "40001", "40P01", "55P03", "23505", "53300", "57P03":
		return segno.KindBusy
	case "25006", "42501":
		return segno.KindRefused // a standby, or no right to do it
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

// lost reports whether err says that a connection broke or could not be made.
func lost(err error) bool {
	var network net.Error
	var errno syscall.Errno
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.As(err, &network) || errors.As(err, &errno) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// passing reports whether trying again may help.
func passing(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01", "55P03", "23505", "53300", "57014", "57P01", "57P02", "57P03", "57P05", "25P03":
			return true
		}
		return strings.HasPrefix(pg.Code, "08")
	}
	return errors.Is(err, errAgain) || lost(err)
}

// sure reports whether a statement that ended with err has certainly not been carried
// out and will not be: the server said so, or was never asked.
func sure(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// A server that shuts down may say so after it has committed.
		return !strings.HasPrefix(pg.Code, "57P") && !strings.HasPrefix(pg.Code, "08")
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, errAgain)
}

// errAgain means that what stood in a commit's way is gone.
var errAgain = errors.New("other writers were faster each time")

// patiently repeats f while trying again may help, until patience or ctx ends. f must be
// safe to repeat.
func (s *Store) patiently(ctx context.Context, f func(context.Context) error) error {
	begun := time.Now()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		err := f(ctx)
		if err == nil || !passing(err) || ctx.Err() != nil || time.Since(begun) > s.options.Patience {
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

func corrupt(op, name string, err error) error {
	return segno.NewError(segno.KindCorrupt, op, name, err).WithHint("restore the record from a backup of the database")
}

func notFound(op, name string) error {
	return segno.NewError(segno.KindNotFound, op, name, nil)
}

func invalid(op, name string, err error) error {
	return segno.NewError(segno.KindInvalid, op, name, err)
}
