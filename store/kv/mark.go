package kv

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// Unlock finds out whether [Options.Key] is the store's, which the first call does if
// nobody did before. With no key, where there should be one, with another, or with one
// where there should be none, the error is [segno.KindRefused], and nothing else is read
// or written. It costs one round trip, and after that nothing.
func (s *Store) Unlock(ctx context.Context) error {
	end, err := s.begin(ctx, "open store")
	if err != nil {
		return err
	}
	end()
	return nil
}

func (s *Store) unlock(ctx context.Context) error {
	if s.unlocked.Load() {
		return nil
	}
	select {
	case s.unlocking <- struct{}{}:
		defer func() { <-s.unlocking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for !s.unlocked.Load() {
		mark, err := s.mark(ctx)
		if err != nil {
			return err
		}
		isNew := false
		if mark == nil && s.options.Key != nil {
			if isNew, err = s.isNew(ctx); err != nil {
				return err
			}
			if !isNew { // or another made it just now
				if mark, err = s.mark(ctx); err != nil {
					return err
				}
			}
		}
		sealer, made, err := record.Unlock("", s.options.Key, mark, isNew)
		if err != nil {
			return err
		}
		if mark == nil && made != nil {
			_, err := s.kv.Put(ctx, sealKey, frame(sealKey, made), RevNone)
			if err != nil && segno.KindOf(err) != segno.KindConflict {
				return err
			}
			continue // it is read back: another may have been first, or this one twice
		}
		s.code.seal = sealer
		s.unlocked.Store(true)
	}
	return nil
}

// mark reads what the store knows its key by; nil if it has none.
func (s *Store) mark(ctx context.Context) (record.Mark, error) {
	val, _, err := s.kv.Get(ctx, sealKey)
	if err != nil {
		if segno.KindOf(err) == segno.KindNotFound {
			err = nil
		}
		return nil, err
	}
	return unframe(sealKey, val)
}

// isNew reports whether the store has nothing at all: also what a thread left behind that
// has expired, or a commit that was broken off, would stay in plain. What lies
// beside the store in the same database is not asked about.
func (s *Store) isNew(ctx context.Context) (bool, error) {
	for _, group := range []string{threadsGroup, pinsGroup, "c{", "s{", "o{", "p{"} {
		for _, err := range s.kv.List(ctx, group, "", 1) {
			return false, err
		}
	}
	return true, nil
}
