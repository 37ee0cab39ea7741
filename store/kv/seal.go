package kv

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// unseal determines whether the store is sealed and whether [Options.Key] is its key. If there is a key, a
// new store becomes sealed.
func (s *Store) unseal(ctx context.Context) error {
	mark, err := s.readMark(ctx)
	if err == nil && mark == nil && s.options.Key != nil {
		if err = s.sealIfNew(ctx); err == nil {
			mark, err = s.readMark(ctx) // the mark that was written first, by this or another process
		}
	}
	if err == nil {
		s.code.seal, _, err = record.Unlock("", s.options.Key, mark, false)
	}
	return err
}

// sealIfNew writes the mark of a key, if the store has no values at all and no other process writes one
// first. Values that an expired thread or an interrupted commit left also prevent this, because they would
// stay readable without the key.
func (s *Store) sealIfNew(ctx context.Context) error {
	for _, prefix := range []string{threadsGroup, pinsGroup, "c{", "s{", "o{"} {
		for _, err := range s.kv.List(ctx, prefix, "", 1) {
			return err
		}
	}
	_, mark, err := record.Unlock("", s.options.Key, nil, true)
	if err == nil {
		_, err = s.kv.Put(ctx, sealKey, s.code.frame(sealKey, mark), RevNone)
	}
	if isKind(err, segno.KindConflict) {
		return nil
	}
	return err
}

// readMark reads the value that identifies the store's key. It returns nil if the store is not sealed.
func (s *Store) readMark(ctx context.Context) (record.Mark, error) {
	val, _, err := s.get(ctx, sealKey)
	if err != nil || val == nil {
		return nil, err
	}
	return s.code.unframe(sealKey, val)
}
