// Package threadlog has the code that store/file and store/memory share. A thread is a log of records. An [Index] in
// memory has the whole content of the logs except the entries. [Store] answers reads from the index. To write, it
// checks the index, appends a record to the log of one thread, and applies the record to the index. The two stores
// differ only in their [Logs]: the places of the logs, the objects and the workspaces.
//
// A log that cannot be read makes its thread damaged. Calls about that thread return the damage. Lists yield the other
// threads first and then the damage. A look-up that does not find a commit also returns the damage, because the commit
// may be in that log.
package threadlog

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
)

// Logs keeps the logs of threads, and the objects and workspaces beside them. Errors of its methods need no kind;
// [Store] adds one.
type Logs interface {
	// Enter returns the index of the logs in their present state. Until the caller calls leave, no other call uses the
	// index. If write is set, all other writers of the store wait, too.
	Enter(ctx context.Context, write bool) (x *Index, leave func(), err error)
	// Check returns an error if the log of a thread has become unreadable since the index read it.
	Check(t *Thread) error
	// Open opens the log of a thread, which may be new, and applies the records that the index has not
	// read. The caller holds the index for writing.
	Open(t *Thread) error
	// Append durably writes a record to the log that was opened last, and applies it to the index.
	Append(t *Thread, r *Record, entries []segno.Entry) error
	// ReadEntries sets the entries of nodes. path has the same commits. The caller does not hold the index.
	ReadEntries(ctx context.Context, path []*Commit, nodes []segno.Node) error
	// Rewrite passes the commits in the logs of threads to strip, which removes some of their content, and writes the
	// logs again. If strip sets the number of a commit's entries to 0, Rewrite removes the entries.
	Rewrite(threads []*Thread, strip func(*CommitRecord)) error

	// ReadObject returns an object. The error matches fs.ErrNotExist if there is none.
	ReadObject(name segno.Hash) ([]byte, error)
	// Missing returns the first of names that is neither stored nor in the packs, or the zero hash.
	Missing(names []segno.Hash, packs []string) (segno.Hash, error)
	// KeepObjects durably stores staged objects. The caller holds the index for writing.
	KeepObjects(staged segno.Staged) error
	// RemoveObjects removes objects in order, and returns the number and the size of those that existed. If dryRun is set, it
	// only counts them.
	RemoveObjects(names []segno.Hash, dryRun bool) (n int, bytes int64, err error)
	NewPacks() Packs

	// Workspaces returns the workspace with an id, or all if id is "", without their states.
	Workspaces(id segno.WorkspaceID) ([]segno.WorkspaceRecord, error)
	PutWorkspace(w segno.WorkspaceRecord) error

	// Close waits until no call holds the index.
	Close() error
}

// Store implements [segno.Store], [segno.Chains], [segno.Workspaces], [segno.Leaser],
// [segno.Eraser] and [segno.Watcher] on logs.
type Store struct {
	logs     Logs
	clock    func() time.Time
	pause    func() notify.Pause
	closed   atomic.Bool
	notifier notify.Notifier
}

// New returns the store in logs. clock is the time by which a lease expires. pause returns the [notify.Pause] for one
// call of Wait: a store to which other processes commit needs polling.
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

// enter calls Enter of the logs, if the call may begin.
func (s *Store) enter(ctx context.Context, op string, write bool) (x *Index, leave func(), err error) {
	if err := s.begin(ctx, op); err != nil {
		return nil, nil, err
	}
	x, leave, err = s.logs.Enter(ctx, write)
	if err != nil {
		return nil, nil, Fail(op, "", err)
	}
	if err := s.begin(ctx, op); err != nil { // again, because Close may have been called in the meantime
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

// view calls read with the index. name is the subject of the call, for errors.
func view[T any](ctx context.Context, s *Store, op, name string, read func(*Index) (T, error)) (out T, err error) {
	x, leave, err := s.enter(ctx, op, false)
	if err != nil {
		return out, err
	}
	defer leave()
	out, err = read(x)
	return out, Fail(op, name, err)
}

// list yields the results of view. If damaged is set, it then yields an error for each unreadable thread, because that
// thread may have more results.
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

// update calls decide with a thread, and appends the record that decide returns, if any. It returns the head after
// that. If anyThread is set, the thread may be missing or deleted.
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
		err = s.logs.Append(t, r, entries) // from here on ctx is ignored, because a write must not stop halfway
		s.notifier.Notify(id)
	}
	return cloneHead(t.Head), err
}

// Fail adds a kind to an error. It returns an error that already has a kind unchanged.
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
