package kv

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
	"github.com/dalsegno/segno/internal/record"
)

// Options say how a store keeps threads. The zero value keeps them for ever.
type Options struct {
	// TTL, if it is not 0, is how long a thread lives after its newest commit, a
	// second at least. The KV must be a [Batcher]. All openings of one store should
	// have the same.
	TTL time.Duration
	// Clock is what times are read from; nil is time.Now.
	Clock func() time.Time
	// Key, if it is not nil, seals all values with AES-256: 32 random bytes, the same
	// for all openings of one store. Who can read the KV, and has not the key, learns
	// the ids of threads and commits, which commits are a thread's and their order, how
	// many sessions, objects and pins there are and which thread a session was in, how
	// long values are and when they were written. A value that was changed, or stands
	// under another key, is [segno.KindCorrupt]; that one is gone, or is an older one of
	// the same key, the KV is believed. A store is sealed from its beginning or never.
	Key []byte
}

// Store is a [segno.Store] in a [KV], and [segno.Chains], [segno.Leaser], [segno.Eraser]
// and [segno.Watcher].
type Store struct {
	kv      KV
	getter  Getter  // nil if the KV is none
	batcher Batcher // nil if the KV is none
	options Options
	code    *coder

	notifier notify.Notifier
	gate     sync.RWMutex // held shared by each call under way
	closed   bool

	unlocking chan struct{} // holds one token
	unlocked  atomic.Bool   // code is the store's

	phasesMade atomic.Bool // the key is there

	last   atomic.Int64 // the newest stamp seen
	states recent[segno.ThreadID, *state]
	places recent[segno.CommitID, located]
}

var (
	_ segno.Store  = (*Store)(nil)
	_ segno.Chains = (*Store)(nil)
	_ segno.Leaser = (*Store)(nil)
	_ segno.Eraser = (*Store)(nil)
)

// Open returns a store in kv. Nothing is read until the first call, and nothing is
// written until the first commit, or with a key until the first call. Close leaves kv
// open.
func Open(kv KV, o Options) (*Store, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Store{kv: kv, options: o, code: &coder{Squeezer: record.NewSqueezer()}, unlocking: make(chan struct{}, 1)}
	s.options.Key = bytes.Clone(o.Key)
	s.getter, _ = kv.(Getter)
	s.batcher, _ = kv.(Batcher)
	if err := record.CheckKey(o.Key); err != nil {
		return nil, err
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < time.Second {
		return nil, segno.Errorf(segno.KindInvalid, "open store", "", "threads live for a second at least")
	}
	if o.TTL > 0 && s.batcher == nil {
		return nil, segno.Errorf(segno.KindInvalid, "open store", "", "threads can only expire in a key-value store that changes many keys at once")
	}
	return s, nil
}

// begin lets one call in; Close waits for its end.
func (s *Store) begin(ctx context.Context, op string) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, segno.NewError(segno.KindCancelled, op, "", err)
	}
	s.gate.RLock()
	if s.closed {
		s.gate.RUnlock()
		return nil, segno.Errorf(segno.KindInvalid, op, "", "the store is closed")
	}
	if err := s.unlock(ctx); err != nil {
		s.gate.RUnlock()
		return nil, fail(op, "", err)
	}
	return s.gate.RUnlock, nil
}

// Close implements [segno.Store].
func (s *Store) Close() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.closed = true
	s.notifier.NotifyAll()
	return nil
}

// Head implements [segno.Store].
func (s *Store) Head(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
	const op = "read head"
	end, err := s.begin(ctx, op)
	if err != nil {
		return segno.Head{}, err
	}
	defer end()
	st, err := s.visible(ctx, id, false)
	if err != nil {
		return segno.Head{}, fail(op, string(id), err)
	}
	return st.clone().Head, nil
}

// Delete implements [segno.Store]. In a store whose threads expire it is gone when
// its time is over.
func (s *Store) Delete(ctx context.Context, id segno.ThreadID) error {
	const op = "delete thread"
	end, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	defer s.notifier.Notify(id)
	for try := 0; ; try++ {
		st, err := s.visible(ctx, id, try > 0)
		if err == nil {
			e := st.entryAfter(id)
			e.hidden, e.stamp = true, max(s.stamp(), st.stamp+1)
			err = s.follow(ctx, st, e)
		} else if try > 0 && segno.KindOf(err) == segno.KindNotFound {
			return nil // the change it met was this one
		}
		if segno.KindOf(err) != segno.KindConflict || ctx.Err() != nil {
			return fail(op, string(id), err)
		}
	}
}

// visible reads where a thread stands that is not deleted.
func (s *Store) visible(ctx context.Context, id segno.ThreadID, doubt bool) (*state, error) {
	st, err := s.fresh(ctx, id, doubt)
	if err == nil && (st == nil || st.hidden) {
		err = segno.NewError(segno.KindNotFound, "", "", nil)
	}
	return st, err
}

// fresh reads where a thread stands now; nil if there is none. The records after
// the head key are read too where it is only a hint, where it is missing, and if
// the caller met with something that does not go with it.
func (s *Store) fresh(ctx context.Context, id segno.ThreadID, doubt bool) (*state, error) {
	key := headKey(id)
	st := &state{Head: segno.Head{Thread: id}}
	val, rev, err := s.kv.Get(ctx, key)
	switch {
	case err == nil:
		if st, err = decodeState(s.code, key, val); err != nil {
			return nil, err
		}
		if st.Thread != id {
			return nil, damaged(key, errors.New("it is another thread's"))
		}
		st.rev = rev
	case segno.KindOf(err) != segno.KindNotFound:
		return nil, err
	}
	if s.batcher == nil || st.pos == 0 || doubt {
		if st, err = s.fold(ctx, st); err != nil {
			return nil, err
		}
	}
	if st.pos == 0 {
		s.states.drop(id)
		return nil, nil
	}
	s.saw(st)
	return st, nil
}

// fold reads the records after st's.
func (s *Store) fold(ctx context.Context, st *state) (*state, error) {
	prefix := threadGroup(st.Thread) + areaName(areaLog) + "/"
	after := place{st.Thread, areaLog, st.pos}.key()
	for item, err := range s.kv.List(ctx, prefix, after, 0) {
		if err != nil {
			return nil, err
		}
		at := place{st.Thread, areaLog, st.pos + 1}
		if item.Key != at.key() {
			return nil, missing(at.key())
		}
		e, err := decodeEntry(s.code, at, item.Val)
		if err != nil {
			return nil, err
		}
		if err := s.complete(ctx, e, nil); err != nil {
			return nil, err
		}
		if st, err = st.after(e); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// saw remembers a state that was read or written.
func (s *Store) saw(st *state) {
	s.observe(st.stamp)
	s.states.put(st.Thread, st)
	if runs := st.line.runs; runs != nil {
		last := runs[len(runs)-1]
		s.places.put(st.Head.Head, located{place{last.thread, last.area, last.to}, runs})
	}
}

func (s *Store) observe(stamp int64) {
	for {
		last := s.last.Load()
		if stamp <= last || s.last.CompareAndSwap(last, stamp) {
			return
		}
	}
}

// stamp returns a moment that is after all this store has seen. It orders lists
// across threads and nothing else.
func (s *Store) stamp() int64 {
	for {
		last := s.last.Load()
		now := max(s.options.Clock().UnixNano(), last+1)
		if s.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// fail says what was being done when err came.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	kind := segno.KindOf(err)
	if e, ok := err.(*segno.Error); ok && e.Op == "" { //nolint:errorlint // one that is wrapped says already what was done
		return segno.NewError(kind, op, name, e.Err)
	} else if ok && e.Op == op {
		return e
	}
	if kind == segno.KindInternal {
		kind = segno.KindIO
	}
	return segno.NewError(kind, op, name, err)
}
