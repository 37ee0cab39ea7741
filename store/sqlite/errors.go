package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

func notFound(op, name string) error { return segno.NewError(segno.KindNotFound, op, name, nil) }

// corrupt returns an error of [segno.KindCorrupt], or nil if err is nil.
func corrupt(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return segno.NewError(segno.KindCorrupt, op, name, err).WithHint("run 'segno check' to list all damage")
}

// fail returns an error with its kind. An error that already has one stays the same.
func fail(op, name string, err error) error {
	var known *segno.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	var db *sqlite.Error
	if errors.As(err, &db) && isFull(db.Code()) {
		err = fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	out := segno.NewError(kindOf(err), op, name, err)
	switch out.Kind {
	case segno.KindBusy:
		out.Hint = "try again; another segno is writing"
	case segno.KindCorrupt:
		out.Hint = "run 'segno check' to list all damage"
	}
	return out
}

// isFull reports whether a result code means a full disk. SQLite's index of its log has a fixed size, so
// setting that size fails only if the disk is full.
func isFull(code int) bool {
	return code&primaryCode == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR_SHMSIZE
}

// failCtx is fail for a call with a context. If SQLite reports that it was interrupted, the error wraps the
// context's error.
func failCtx(ctx context.Context, op, name string, err error) error {
	if err != nil && kindOf(err) == segno.KindCancelled && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = sqlstore.WithCause(err, ctx.Err())
	}
	return fail(op, name, err)
}

// primaryCode masks the part of a result code that SQLite's manual calls primary.
const primaryCode = 0xff

func kindOf(err error) segno.Kind {
	var db *sqlite.Error
	var path *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.KindCancelled
	case errors.Is(err, record.ErrDamaged):
		return segno.KindCorrupt
	case errors.As(err, &db):
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
	case errors.As(err, &path), errors.As(err, &errno):
		return segno.KindIO
	}
	return segno.KindInternal
}
