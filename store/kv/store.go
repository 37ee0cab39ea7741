package kv

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
	"github.com/dalsegno/segno/internal/store/record"
)

// Options configure a store. The zero value never expires threads.
type Options struct {
	// TTL, if not 0, is how long a thread lives after its newest commit. It must be at least a second,
	// and the KV must be a [Batcher]. All programs that open one store should use the same TTL.
	TTL time.Duration
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// Key is the encryption key: 32 random bytes, the same for all programs that open one store. With a
	// Key, the store seals all values with AES-256; if it is nil, the store encrypts nothing. Open
	// returns [segno.KindRefused] if the key is missing, wrong or superfluous. A reader of the KV without
	// the key learns: the ids of threads and commits, which commits belong to a thread, and their order;
	// the numbers of sessions, objects and pins, and the thread of each session; how long values are, and
	// when they were written. A value that was changed or moved to another key is [segno.KindCorrupt].
	// The store cannot detect that a value was removed, or replaced by an older value of the same key. A
	// store is either sealed from its first write on, or never.
	Key []byte
}

// Store is a [segno.Store] in a [KV]. It also implements [segno.Chains], [segno.Leaser], [segno.Eraser],
// [segno.Checker] and [segno.Watcher].
type Store struct {
	kv      KV
	batcher Batcher
	// headIsAtomic is set if the KV is a Batcher. The head key and the newest record are then written
	// together, so that the head key is never stale. Otherwise it may be older.
	headIsAtomic bool
	options      Options
	code         *coder

	notifier notify.Notifier
	calls    sync.RWMutex // every call in progress holds it shared
	closed   bool

	phasesMade atomic.Bool // phasesKey exists
	stampMu    sync.Mutex  // guards lastStamp
	lastStamp  int64       // the highest stamp that was read or written
	states     cache[segno.ThreadID, *threadState]
	positions  cache[segno.CommitID, lineEnd]
}

var (
	_ segno.Store   = (*Store)(nil)
	_ segno.Chains  = (*Store)(nil)
	_ segno.Leaser  = (*Store)(nil)
	_ segno.Eraser  = (*Store)(nil)
	_ segno.Checker = (*Store)(nil)
	_ segno.Watcher = (*Store)(nil)
)

// Open opens the store in kv, or makes one. It reads one value to determine whether the store is sealed.
// If Options.Key is nil for a sealed store, is not the store's key, or is set for a store that is not
// sealed, Open returns [segno.KindRefused] and has read and written nothing else. The first commit writes
// a new store; with a key, Open does. Close does not close kv.
func Open(ctx context.Context, kv KV, o Options) (*Store, error) {
	const op = "open store"
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Store{kv: kv, options: o, code: &coder{Squeezer: record.NewSqueezer()}}
	if s.batcher, s.headIsAtomic = kv.(Batcher); !s.headIsAtomic {
		s.batcher = oneByOne{kv}
	}
	if err := record.CheckKey(o.Key); err != nil {
		return nil, err
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Second {
		return nil, segno.Errorf(segno.KindInvalid, op, "", "the TTL is less than a second")
	}
	if o.TTL > 0 && !s.headIsAtomic {
		return nil, segno.Errorf(segno.KindInvalid, op, "", "threads can expire only in a key-value store that writes several keys atomically")
	}
	if err := s.unseal(ctx); err != nil {
		return nil, fail(op, "", err)
	}
	return s, nil
}

// begin starts one call; Close waits for its end.
func (s *Store) begin(ctx context.Context, op string) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, segno.NewError(segno.KindCancelled, op, "", err)
	}
	s.calls.RLock()
	if s.closed {
		s.calls.RUnlock()
		return nil, segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	return s.calls.RUnlock, nil
}

// call runs one call. Its errors name the operation and the operation's object.
func call[T any](ctx context.Context, s *Store, op, name string, do func() (T, error)) (T, error) {
	end, err := s.begin(ctx, op)
	if err != nil {
		var zero T
		return zero, err
	}
	defer end()
	v, err := do()
	return v, fail(op, name, err)
}

// run is call for a function without a result.
func (s *Store) run(ctx context.Context, op, name string, do func() error) error {
	_, err := call(ctx, s, op, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// sequence yields the values that one call returns, and then its error.
func sequence[T any](ctx context.Context, s *Store, op, name string, list func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := call(ctx, s, op, name, list)
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
		if err != nil {
			var zero T
			yield(zero, err)
		}
	}
}

// fail adds the operation and its object to err, unless err already names them.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	kind := segno.KindOf(err)
	if e, ok := err.(*segno.Error); ok && e.Op == "" { //nolint:errorlint // a wrapped error names its operation already
		return segno.NewError(kind, op, name, e.Err)
	} else if ok && e.Op == op {
		return e
	}
	if kind == segno.KindInternal {
		kind = segno.KindIO
	}
	return segno.NewError(kind, op, name, err)
}

// Close implements [segno.Store].
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	s.closed = true
	s.notifier.NotifyAll()
	return nil
}

// Wait implements [segno.Watcher]. It returns immediately after a commit of this Store, and within a
// quarter of a second after a commit of another process, because it polls the thread's head. It polls
// although some key-value stores can notify, so that [KV] does not need this ability.
func (s *Store) Wait(ctx context.Context, thread segno.ThreadID, after int64) (segno.Head, error) {
	return s.notifier.Wait(ctx, thread, after, s.Head, notify.Poll())
}

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	return call(ctx, s, "read head", string(id), func() (segno.Head, error) {
		st, err := s.readVisible(ctx, id, false)
		if err != nil {
			return segno.Head{}, err
		}
		return st.headCopy(), nil
	})
}

// Delete implements [segno.Store]. With a TTL, the values of a deleted thread stay until the thread
// expires.
func (s *Store) Delete(ctx context.Context, id segno.ThreadID) error {
	defer s.notifier.Notify(id)
	return s.retryConflicts(ctx, "delete thread", id, func(retry bool) error {
		st, err := s.readVisible(ctx, id, retry)
		if retry && isKind(err, segno.KindNotFound) {
			return nil // the conflict was with this call's own record, which was written twice
		}
		if err != nil {
			return err
		}
		e := s.nextRecord(st)
		e.Deleted = true
		return s.appendRecord(ctx, st, e)
	})
}

// retryConflicts repeats a call that changes a thread as long as it conflicts with other changes.
func (s *Store) retryConflicts(ctx context.Context, op string, id segno.ThreadID, do func(retry bool) error) error {
	return s.run(ctx, op, string(id), func() error {
		for retry := false; ; retry = true {
			if err := do(retry); !isKind(err, segno.KindConflict) || ctx.Err() != nil {
				return err
			}
		}
	})
}

// isKind reports whether err is an error of a kind.
func isKind(err error, kind segno.Kind) bool { return err != nil && segno.KindOf(err) == kind }

// readVisible is readState for a thread that must exist and not be deleted.
func (s *Store) readVisible(ctx context.Context, id segno.ThreadID, doubt bool) (*threadState, error) {
	st, err := s.readState(ctx, id, doubt)
	if err == nil && !st.visible() {
		err = segno.NewError(segno.KindNotFound, "", "", nil)
	}
	return st, err
}

// readState reads the current state of a thread; its pos is 0 if the thread does not exist. It also reads
// the records after the head key if that key is only a hint, if it is missing, or if doubt is set, which
// means that a conflict contradicted the head key.
func (s *Store) readState(ctx context.Context, id segno.ThreadID, doubt bool) (*threadState, error) {
	key := headKey(id)
	st := new(threadState)
	st.Head.Thread = id
	val, rev, err := s.kv.Get(ctx, key)
	switch {
	case err == nil:
		if st, err = decodeThreadState(s.code, key, val); err != nil {
			return nil, err
		}
		if st.Head.Thread != id {
			return nil, damaged(key, errors.New("it belongs to another thread"))
		}
		st.rev = rev
	case segno.KindOf(err) != segno.KindNotFound:
		return nil, err
	}
	if !s.headIsAtomic || st.pos == 0 || doubt {
		if st, err = s.readNewer(ctx, st); err != nil {
			return nil, err
		}
	}
	if st.pos == 0 {
		s.states.remove(id)
	} else {
		s.remember(st)
	}
	return st, nil
}

// readNewer returns st updated by the records that follow it.
func (s *Store) readNewer(ctx context.Context, st *threadState) (*threadState, error) {
	id := st.Head.Thread
	for item, err := range s.kv.List(ctx, areaPrefix(id, areaLog), position{id, areaLog, st.pos}.key(), 0) {
		if err != nil {
			return nil, err
		}
		at := position{id, areaLog, st.pos + 1}
		if item.Key != at.key() {
			return nil, missing(at.key())
		}
		e, err := decodeLogRecord(s.code, at, item.Val)
		if err == nil {
			err = s.completeLine(ctx, e, nil)
		}
		if err == nil {
			st, err = st.after(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return st, nil
}

// remember caches a state that was read or written.
func (s *Store) remember(st *threadState) {
	s.observeStamp(st.stamp)
	s.states.put(st.Head.Thread, st)
	if runs := st.line.runs; runs != nil {
		last := runs[len(runs)-1]
		s.positions.put(st.Head.Head, lineEnd{position{last.thread, last.area, last.to}, runs})
	}
}

// observeStamp makes later stamps greater than stamp.
func (s *Store) observeStamp(stamp int64) {
	s.stampMu.Lock()
	defer s.stampMu.Unlock()
	s.lastStamp = max(s.lastStamp, stamp)
}

// nextStamp returns a time after all times that this store has read. It is used only to order lists
// across threads.
func (s *Store) nextStamp() int64 {
	s.stampMu.Lock()
	defer s.stampMu.Unlock()
	s.lastStamp = max(s.options.Clock().UnixNano(), s.lastStamp+1)
	return s.lastStamp
}
