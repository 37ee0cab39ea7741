package postgres

import (
	"context"
	"sync"

	"github.com/dalsegno/segno"
)

// mostInline is how many encoded bytes a commit's statement carries. What a batch grows
// beyond it is written ahead of the commit.
const mostInline = 1 << 20

// batch is a [segno.Batch].
type batch struct {
	s *Store

	ending sync.RWMutex // held for reading by calls under way, for writing by the one that ends the batch

	mu     sync.Mutex // guards what follows
	err    error      // what went wrong first, or why the batch has ended
	mine   map[segno.Hash]bool
	reused map[segno.Hash]bool
	inline int
	small  []segno.Object
	large  []segno.Object
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch {
	return &batch{s: o.s, mine: map[segno.Hash]bool{}, reused: map[segno.Hash]bool{}}
}

var errBatchEnded = segno.Errorf(segno.KindInvalid, "put object", "", "the batch has ended")

// Put implements [segno.Batch]. A Put that fails spoils the batch.
func (b *batch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	b.ending.RLock()
	defer b.ending.RUnlock()
	name := segno.HashOf(data)
	found, err := b.look(ctx, name, true)
	if err != nil || found {
		return name, err
	}
	if err := b.store(ctx, name, data); err != nil {
		return name, b.spoil(b.s.fail(ctx, "put object", name.String(), err))
	}
	return name, nil
}

// Has implements [segno.Batch].
func (b *batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	b.ending.RLock()
	defer b.ending.RUnlock()
	return b.look(ctx, name, false)
}

// look reports whether an object is in the batch or the store. With claim, one that is
// in neither is the caller's to store, and the batch's from now on.
func (b *batch) look(ctx context.Context, name segno.Hash, claim bool) (bool, error) {
	b.mu.Lock()
	known, err := b.mine[name] || b.reused[name], b.err
	b.mu.Unlock()
	if err != nil || known {
		return known, err
	}
	found, err := (objects{b.s}).Has(ctx, name)
	if err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.mine[name]:
		return true, nil
	case found:
		b.reused[name] = true
	case claim:
		b.mine[name] = true
	}
	return found, nil
}

// store encodes data and keeps it for the commit, or writes it ahead as a body.
func (b *batch) store(ctx context.Context, name segno.Hash, data []byte) error {
	if err := b.s.enter(ctx, "put object"); err != nil {
		return err
	}
	defer b.s.calls.Done()
	stored, e := b.s.squeeze.Small([]byte{stagedInline, 0}, data)
	stored[1] = byte(e)
	kept := b.s.named(name)
	if b.s.seal != nil {
		stored = append(stored[:1:1], b.s.seal.Seal(stored[1:], "object", string(kept[:]))...)
	}
	o := segno.Object{Name: name, Size: int64(len(data)), Data: stored}
	if len(stored) > mostInRow {
		body, err := b.s.putBody(ctx, kept, stored[1:])
		if err != nil {
			return err
		}
		o.Data = append([]byte{stagedBody}, body...)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.large = append(b.large, o)
		return nil
	}
	b.mu.Lock()
	var full []segno.Object
	if b.inline+len(stored) > mostInline {
		full, b.small, b.inline = b.small, nil, 0
	}
	b.small = append(b.small, o)
	b.inline += len(stored)
	b.mu.Unlock()
	return b.spill(ctx, full)
}

// spill writes small objects ahead: to the table, since a bucket is slow for what is
// small.
func (b *batch) spill(ctx context.Context, full []segno.Object) error {
	if len(full) == 0 {
		return nil
	}
	now := b.s.options.now()
	names, datas := make([]string, len(full)), make([][]byte, len(full))
	for i := range full {
		names[i], datas[i] = rowName(b.s.named(full[i].Name), now), full[i].Data[1:]
		full[i].Data = append([]byte{stagedBody}, names[i]...)
	}
	if err := b.s.putRows(ctx, names, datas, now); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.large = append(b.large, full...)
	return nil
}

func (b *batch) spoil(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	return err
}

// Stage implements [segno.Batch]. An object without data in the result is one the batch
// found in the store: the commit makes sure that it still is there.
func (b *batch) Stage(ctx context.Context) (segno.Staged, error) {
	b.ending.Lock()
	defer b.ending.Unlock()
	if b.err != nil {
		return segno.Staged{}, b.err
	}
	if err := b.s.enter(ctx, "stage objects"); err != nil {
		return segno.Staged{}, err
	}
	defer b.s.calls.Done()
	all := append(b.small, b.large...)
	for name := range b.reused {
		all = append(all, segno.Object{Name: name})
	}
	b.small, b.large, b.err = nil, nil, errBatchEnded
	return segno.Staged{Objects: all}, nil
}

// Close implements [segno.Batch]. Bodies that were written ahead are left to the next
// collection.
func (b *batch) Close() error {
	b.ending.Lock()
	defer b.ending.Unlock()
	if b.err == nil {
		b.err = errBatchEnded
	}
	b.small, b.large = nil, nil
	return nil
}
