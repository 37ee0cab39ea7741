package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// fail gives an error its kind. Errors that have one pass through.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var known *segno.Error
	if errors.As(err, &known) {
		return err
	}
	var db *sqlite.Error
	if errors.As(err, &db) && db.Code()&primaryCode == sqlite3.SQLITE_FULL {
		err = &because{err, syscall.ENOSPC}
	}
	out := segno.NewError(kindOf(err), op, name, err)
	switch out.Kind {
	case segno.KindBusy:
		out.Hint = "try again; another segno is writing"
	case segno.KindCorrupt:
		out.Hint = "run 'segno check' to see what is damaged"
	}
	return out
}

// failCtx is fail for a call with a context: if SQLite reports that it was interrupted, the
// error wraps how ctx ended.
func failCtx(ctx context.Context, op, name string, err error) error {
	if err != nil && kindOf(err) == segno.KindCancelled && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = &because{err, ctx.Err()}
	}
	return fail(op, name, err)
}

// because is an error of SQLite with what caused it, for errors.Is.
type because struct{ err, cause error }

func (b *because) Error() string   { return b.err.Error() }
func (b *because) Unwrap() []error { return []error{b.err, b.cause} }

// primaryCode masks the part of a result code that SQLite's manual calls primary.
const primaryCode = 0xff

func kindOf(err error) segno.Kind {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return segno.KindCancelled
	}
	if errors.Is(err, record.ErrDamaged) {
		return segno.KindCorrupt
	}
	var db *sqlite.Error
	if errors.As(err, &db) {
		switch db.Code() & primaryCode {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return segno.KindBusy
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return segno.KindCorrupt
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
			return segno.KindIO
		case sqlite3.SQLITE_INTERRUPT:
			return segno.KindCancelled
		}
		return segno.KindInternal
	}
	var path *fs.PathError
	var errno syscall.Errno
	if errors.As(err, &path) || errors.As(err, &errno) {
		return segno.KindIO
	}
	return segno.KindInternal
}

func corrupt(op, name string, err error) error {
	return segno.NewError(segno.KindCorrupt, op, name, err).WithHint("run 'segno check' to see what else is damaged")
}

func notFound(op, name string) error {
	return segno.NewError(segno.KindNotFound, op, name, nil)
}

func refusedReadOnly(op, name string) error {
	return segno.Errorf(segno.KindRefused, op, name, "the store is read-only").WithHint("make it writable, or use another store")
}
