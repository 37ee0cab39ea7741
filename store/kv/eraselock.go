package kv

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/internal/reach"
)

// A KV has no lock that excludes commits during an erasure. A commit that names objects or commits of
// other threads therefore first writes a key to usingGroup, and then checks erasingKey. An erasure
// first writes erasingKey, and then checks usingGroup. At least one of the two finds the other's key.
// Other commits need neither. The key of a process that died is ignored after some time.
const (
	usingLife   = 5 * time.Minute
	erasingLife = 10 * time.Minute // an erasure renews its key
)

func (s *Store) putTime(ctx context.Context, key string, ifRev Rev) error {
	now := s.options.Clock().UnixNano()
	_, err := s.kv.Put(ctx, key, s.code.frame(key, encodeFields(func(f *fields) { signed(f, &now) })), ifRev)
	return err
}

// isRecent reports whether a key was written less than life ago.
func (s *Store) isRecent(key string, val []byte, life time.Duration) (bool, error) {
	var written int64
	err := s.code.decode(key, val, func(f *fields) { signed(f, &written) })
	return err == nil && s.options.Clock().UnixNano()-written < int64(life), err
}

// besideErasures calls commit when no erasure is running.
func (s *Store) besideErasures(ctx context.Context, c *segno.Commit, commit func() error) error {
	if !reach.NeedsOthers(c) {
		return commit()
	}
	key := usingGroup + escape(string(c.ID))
	if err := s.putTime(ctx, key, RevAny); err != nil {
		return err
	}
	defer func() { _ = s.kv.Delete(context.WithoutCancel(ctx), key, RevAny) }() // or it expires
	if err := s.awaitErasure(ctx); err != nil {
		return err
	}
	return commit()
}

// awaitErasure waits up to a few seconds for the end of an erasure.
func (s *Store) awaitErasure(ctx context.Context) error {
	const interval, maxWait = 20 * time.Millisecond, 5 * time.Second
	for waited := time.Duration(0); ; waited += interval {
		val, _, err := s.get(ctx, erasingKey)
		if err != nil || val == nil {
			return err
		}
		if recent, err := s.isRecent(erasingKey, val, erasingLife); err != nil || !recent {
			return err
		}
		if waited >= maxWait {
			return segno.Errorf(segno.KindBusy, "commit", "", "deleted threads are being erased").WithHint("try again in a moment")
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func eraseBusy(why string) error {
	return segno.Errorf(segno.KindBusy, "erase", "", "%s", why).WithHint("erase again")
}

// beginErasing excludes commits until the caller calls end. It returns [segno.KindBusy] while another
// process erases, or makes a commit that refers to other threads or to objects.
func (s *Store) beginErasing(ctx context.Context) (end func(), err error) {
	val, rev, err := s.get(ctx, erasingKey)
	if err != nil {
		return nil, err
	}
	if val != nil {
		if err := s.removeOld(ctx, Item{erasingKey, val, rev}, erasingLife, "another process is erasing deleted threads"); err != nil {
			return nil, err
		}
	}
	if err := s.putTime(ctx, erasingKey, RevNone); err != nil {
		return nil, err
	}
	end = func() { _ = s.kv.Delete(context.WithoutCancel(ctx), erasingKey, RevAny) } // or it expires
	for item, err := range s.kv.List(ctx, usingGroup, "", 0) {
		if err == nil {
			err = s.removeOld(ctx, item, usingLife, "another writer is making a commit that refers to objects or other threads")
		}
		if err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}

// removeOld removes the key of a process that has died. If the key is recent, it returns an error.
func (s *Store) removeOld(ctx context.Context, x Item, life time.Duration, why string) error {
	recent, err := s.isRecent(x.Key, x.Val, life)
	if err == nil && recent {
		err = eraseBusy(why)
	}
	if err != nil {
		return err
	}
	return s.kv.Delete(ctx, x.Key, x.Rev)
}

// renewErasing renews the key of an erasure. It returns an error if too much time has passed since the
// last renewal, because commits may already ignore the key.
func (s *Store) renewErasing(ctx context.Context) error {
	val, rev, err := s.get(ctx, erasingKey)
	if err != nil {
		return err
	}
	if recent, err := s.isRecent(erasingKey, val, erasingLife/2); err != nil || !recent {
		return errors.Join(err, eraseBusy("erasing took too long"))
	}
	return s.putTime(ctx, erasingKey, rev)
}
