// Package threadlog is what store/file and store/memory share. A thread is a log of records, and an
// [Index] in memory has all that the logs contain but the entries. [Store] answers reads from the index.
// To write, it decides by the index, appends a record to the log of one thread, and applies the record to
// the index. [Logs] is the part in which the two stores differ: where the logs, the objects and the
// workspaces are.
//
// A log that cannot be read makes its thread damaged. Calls about that thread return the damage. Lists
// yield the other threads first and then the damage, and a commit that is not found may be in that log, so
// the look-up returns the damage, too.
package threadlog

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
)

// Logs keeps the logs of threads, and the objects and workspaces beside them. A [Store] gives the errors
// of its methods a kind.
type Logs interface {
	// Enter returns the index of the logs as they are now. Until the caller calls leave, no other call
	// uses the index. With write all other writers of the store wait, too.
	Enter(ctx context.Context, write bool) (x *Index, leave func(), err error)
	// Check returns an error if the log of a thread has become unreadable since the index read it.
	Check(t *Thread) error
	// Open opens the log of a thread, which may be new, and applies the records that the index has not
	// read. The caller holds the index to write.
	Open(t *Thread) error
	// Append makes a record of the thread that was opened last durable, and applies it to the index.
	Append(t *Thread, r *Record, entries []segno.Entry) error
	// ReadEntries sets the entries of nodes, which are those of path. The caller does not hold the index.
	ReadEntries(ctx context.Context, path []*Commit, nodes []segno.Node) error
	// Rewrite passes the commits in the logs of threads to strip, which removes some of their content,
	// and writes the logs again. A commit without entries afterwards loses them.
	Rewrite(threads []*Thread, strip func(*CommitRecord)) error

	// ReadObject returns an object, or an error that is fs.ErrNotExist.
	ReadObject(name segno.Hash) ([]byte, error)
	// Missing returns the first of names that is neither stored nor in the packs, or the zero hash.
	Missing(names []segno.Hash, packs []string) (segno.Hash, error)
	// KeepObjects makes staged objects durable. The caller holds the index to write.
	KeepObjects(staged segno.Staged) error
	// RemoveObjects removes those of these objects that are stored, and returns how many they are and
	// their size. With dryRun it only counts them.
	RemoveObjects(names map[segno.Hash]bool, dryRun bool) (n int, bytes int64, err error)
	NewPacks() Packs

	// Workspaces returns the workspace with an id, or all if id is "", without their states.
	Workspaces(id segno.WorkspaceID) ([]segno.WorkspaceRecord, error)
	PutWorkspace(w segno.WorkspaceRecord) error

	// Close waits until no call holds the index.
	Close() error
}

// Store is a [segno.Store] in logs, and [segno.Chains], [segno.Workspaces], [segno.Leaser],
// [segno.Eraser] and [segno.Watcher].
type Store struct {
	logs     Logs
	clock    func() time.Time
	pause    func() notify.Pause
	closed   atomic.Bool
	notifier notify.Notifier
}

// New returns the store in logs. clock decides whether a lease has expired. pause returns how a call of
// Wait waits: a store to which other processes commit must be polled.
func New(logs Logs, clock func() time.Time, pause func() notify.Pause) *Store {
	return &Store{logs: logs, clock: clock, pause: pause}
}

// Close implements [segno.Store].
func (s *Store) Close() error {
	s.closed.Store(true)
	s.notifier.NotifyAll()
	return s.logs.Close()
}

// begin checks that a call may begin.
func (s *Store) begin(ctx context.Context, op string) error {
	if s.closed.Load() {
		return segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	return Fail(op, "", ctx.Err())
}

// enter is Enter of the logs for a call that may begin.
func (s *Store) enter(ctx context.Context, op string, write bool) (x *Index, leave func(), err error) {
	if err := s.begin(ctx, op); err != nil {
		return nil, nil, err
	}
	x, leave, err = s.logs.Enter(ctx, write)
	if err != nil {
		return nil, nil, Fail(op, "", err)
	}
	if err := s.begin(ctx, op); err != nil { // Close may have come first
		leave()
		return nil, nil, err
	}
	return x, leave, nil
}

// Wait implements [segno.Watcher]. It returns at once after a commit of this Store, and at most a
// quarter of a second after a commit of another process.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.notifier.Wait(ctx, thread, after, s.Head, s.pause())
}

// view calls read with the index. name is what the call is about.
func view[T any](ctx context.Context, s *Store, op, name string, read func(*Index) (T, error)) (out T, err error) {
	x, leave, err := s.enter(ctx, op, false)
	if err != nil {
		return out, err
	}
	defer leave()
	out, err = read(x)
	return out, Fail(op, name, err)
}

// list yields what view returns, and with damaged then an error for each thread that cannot be read and
// may have more.
func list[T any](ctx context.Context, s *Store, op string, damaged bool, read func(*Index) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var errs []error
		found, err := view(ctx, s, op, "", func(x *Index) ([]T, error) {
			if damaged {
				errs = x.damage()
			}
			return read(x)
		})
		if err != nil {
			errs = []error{err}
		}
		for _, x := range found {
			if !yield(x, nil) {
				return
			}
		}
		for _, err := range errs {
			var none T
			if !yield(none, err) {
				return
			}
		}
	}
}

// update calls decide with a thread, and appends the record that decide returns, if any. It returns the
// head afterwards. With anyThread the thread need not exist, or may be deleted.
func (s *Store) update(
	ctx context.Context, op string, id segno.ThreadID, anyThread bool, decide func(*Index, *Thread) (*Record, []segno.Entry, error),
) (head segno.Head, err error) {
	x, leave, err := s.enter(ctx, op, true)
	if err != nil {
		return head, err
	}
	defer leave()
	defer func() { err = Fail(op, string(id), err) }()
	t := x.Thread(x.name(id))
	if err := s.logs.Open(t); err != nil {
		return head, err
	}
	if !anyThread && (!t.Exists || t.Deleted) {
		return head, notFound(op, string(id))
	}
	r, entries, err := decide(x, t)
	if err == nil && r != nil {
		r.N, r.Order = t.Records, x.Order+1
		err = s.logs.Append(t, r, entries) // from here on ctx is ignored: a record is written or not
		s.notifier.Notify(id)
	}
	return cloneHead(t.Head), err
}

// Fail gives an error a kind. It returns an error that has one as it is.
func Fail(op, name string, err error) error {
	var known *segno.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return segno.NewError(segno.KindCancelled, op, name, err)
	}
	return segno.NewError(segno.KindIO, op, name, err)
}

func notFound(op, name string) error { return segno.NewError(segno.KindNotFound, op, name, nil) }
