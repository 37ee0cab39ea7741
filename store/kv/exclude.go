package kv

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/reach"
)

// A key-value store has no lock that keeps commits out of an erasure. A commit that names
// objects or other threads' commits first puts a key into usingGroup, and then looks for
// erasingKey; an erasure first puts erasingKey, and then looks into usingGroup. So one of
// the two sees the other. The other commits do neither.
const (
	usingGroup = "using{}"
	erasingKey = "erasing{}by"
)

// Keys of processes that died count for this long. An erasure renews its key.
const (
	usingLife   = 5 * time.Minute
	erasingLife = 10 * time.Minute
)

func (s *Store) timed(key string) []byte {
	var w writer
	w.int(s.options.Clock().UnixNano())
	return s.code.frame(key, w.b)
}

// isAlive reports whether a key was put less than life ago.
func (s *Store) isAlive(key string, val []byte, life time.Duration) (bool, error) {
	content, err := s.code.unframe(key, val)
	if err != nil {
		return false, err
	}
	r := reader{b: content}
	put := r.int()
	if r.err != nil {
		return false, damaged(key, r.err)
	}
	return s.options.Clock().UnixNano()-put < int64(life), nil
}

// besideErasures calls commit while no erasure is under way.
func (s *Store) besideErasures(ctx context.Context, c *segno.Commit, commit func() (segno.Head, error)) (head segno.Head, err error) {
	if !reach.NeedsOthers(c) {
		return commit()
	}
	key := usingGroup + escape(string(c.ID))
	if _, err := s.kv.Put(ctx, key, s.timed(key), RevAny); err != nil {
		return head, err
	}
	defer func() { _ = s.kv.Delete(context.WithoutCancel(ctx), key, RevAny) }() // it dies in time
	if err := s.awaitErasure(ctx); err != nil {
		return head, err
	}
	return commit()
}

// awaitErasure waits a moment for the end of an erasure.
func (s *Store) awaitErasure(ctx context.Context) error {
	const pause, most = 20 * time.Millisecond, 5 * time.Second
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for waited := time.Duration(0); ; waited += pause {
		val, _, err := s.kv.Get(ctx, erasingKey)
		if err != nil && segno.KindOf(err) == segno.KindNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if alive, err := s.isAlive(erasingKey, val, erasingLife); err != nil || !alive {
			return err
		}
		if waited >= most {
			return segno.Errorf(segno.KindBusy, "commit", "", "deleted threads are being erased").WithHint("try again in a moment")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// beginErasing keeps commits out until end, or reports that one is under way.
func (s *Store) beginErasing(ctx context.Context) (end func(), err error) {
	busy := func(what string) error {
		return segno.Errorf(segno.KindBusy, "erase", "", "%s", what).WithHint("erase again")
	}
	if val, rev, err := s.kv.Get(ctx, erasingKey); err == nil {
		alive, err := s.isAlive(erasingKey, val, erasingLife)
		if err == nil && alive {
			err = busy("another process erases deleted threads")
		}
		if err == nil {
			err = s.kv.Delete(ctx, erasingKey, rev)
		}
		if err != nil {
			return nil, err
		}
	} else if segno.KindOf(err) != segno.KindNotFound {
		return nil, err
	}
	if _, err := s.kv.Put(ctx, erasingKey, s.timed(erasingKey), RevNone); err != nil {
		return nil, err
	}
	end = func() { _ = s.kv.Delete(context.WithoutCancel(ctx), erasingKey, RevAny) } // it dies in time
	for item, err := range s.kv.List(ctx, usingGroup, "", 0) {
		alive := false
		if err == nil {
			alive, err = s.isAlive(item.Key, item.Val, usingLife)
		}
		if err == nil && alive {
			err = busy("another writer commits what an erasure could remove")
		}
		if err == nil {
			err = s.kv.Delete(ctx, item.Key, item.Rev)
		}
		if err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}

// keepErasing renews the key of an erasure. It fails if the erasure has taken too long since
// it did so last: commits may be under way again.
func (s *Store) keepErasing(ctx context.Context) error {
	val, rev, err := s.kv.Get(ctx, erasingKey)
	if err != nil {
		return err
	}
	if alive, err := s.isAlive(erasingKey, val, erasingLife/2); err != nil || !alive {
		return errors.Join(err, segno.Errorf(segno.KindBusy, "erase", "", "it took too long").WithHint("erase again"))
	}
	_, err = s.kv.Put(ctx, erasingKey, s.timed(erasingKey), rev)
	return err
}
