package kv

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// unseal finds out whether the store is sealed and whether [Options.Key] is its key. A new store
// becomes sealed if there is a key.
func (s *Store) unseal(ctx context.Context) error {
	for {
		mark, err := s.readMark(ctx)
		if err != nil {
			return err
		}
		isNew := false
		if mark == nil && s.options.Key != nil {
			if isNew, err = s.isNew(ctx); err != nil {
				return err
			}
			if !isNew { // or another process has sealed it in between
				if mark, err = s.readMark(ctx); err != nil {
					return err
				}
			}
		}
		sealer, made, err := record.Unlock("", s.options.Key, mark, isNew)
		if err != nil {
			return err
		}
		if mark == nil && made != nil {
			_, err := s.kv.Put(ctx, sealKey, s.code.frame(sealKey, made), RevNone)
			if err != nil && segno.KindOf(err) != segno.KindConflict {
				return err
			}
			continue // read the mark that was written first: this one, or another process's
		}
		s.code.seal = sealer
		return nil
	}
}

// readMark reads what identifies the store's key; nil if the store is not sealed.
func (s *Store) readMark(ctx context.Context) (record.Mark, error) {
	val, _, err := s.kv.Get(ctx, sealKey)
	if isKind(err, segno.KindNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.code.unframe(sealKey, val)
}

// isNew reports whether the store has no values at all. Values that an expired thread or an
// interrupted commit left count, because they would stay readable without the key.
func (s *Store) isNew(ctx context.Context) (bool, error) {
	for _, prefix := range []string{threadsGroup, pinsGroup, "c{", "s{", "o{"} {
		for _, err := range s.kv.List(ctx, prefix, "", 1) {
			return false, err
		}
	}
	return true, nil
}
