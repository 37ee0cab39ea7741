package ledger

import (
	"context"
	"slices"
	"sync"

	"github.com/dalsegno/segno"
)

// MaxInline is the number of encoded bytes that a batch keeps in memory for its commit. The sink
// writes further bytes before the commit.
const MaxInline = 1 << 20

// Sink is the part of a batch that differs from store to store. Its methods may be called
// concurrently, except Finish and Drop, which are called once, after all others.
//
// An object's Data is its encoding, which only the store reads. Data is nil for an object that the
// sink has written to a pack.
type Sink interface {
	// Has reports whether the store holds an object.
	Has(ctx context.Context, name segno.Hash) (bool, error)
	// Encode returns a new object in the form that the commit contains. It may write the object to
	// a pack itself and return no Data. It must not retain data.
	Encode(ctx context.Context, name segno.Hash, data []byte) (segno.Object, error)
	// Spill writes objects that no longer fit into [MaxInline]. It returns the objects that the commit contains
	// instead: small references, or nothing for an object in a pack. Some of the objects may be references that Encode
	// returned.
	Spill(ctx context.Context, objects []segno.Object) ([]segno.Object, error)
	// Finish makes all writes of the sink durable, and returns the packs that the commit must name.
	Finish(ctx context.Context) (packs []string, err error)
	// Drop removes the writes of the sink, except those that the store removes only later.
	Drop() error
}

// Batch is the [segno.Batch] of every store. After an error of its sink, except a failed look-up,
// all later calls return that error.
type Batch struct {
	sink Sink

	ending sync.RWMutex // held shared by running calls, exclusively by the call that ends the batch
	done   bool         // the sink was finished or dropped

	mu      sync.Mutex // guards the following fields
	err     error      // the reason why the batch can no longer be used
	seen    map[segno.Hash]struct{}
	found   []segno.Object // objects in the store, without data; the commit looks for them again
	inline  []segno.Object // their encodings together have at most MaxInline bytes
	size    int            // total size of the encodings in inline
	spilled []segno.Object // references that Spill returned
}

// NewBatch returns an empty batch.
func NewBatch(sink Sink) *Batch { return &Batch{sink: sink, seen: map[segno.Hash]struct{}{}} }

// errEnded returns the error of calls after Stage or Close.
func errEnded() error {
	return segno.Errorf(segno.KindInvalid, "put object", "", "the batch has ended")
}

// Put implements [segno.Batch].
func (b *Batch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	b.ending.RLock()
	defer b.ending.RUnlock()
	name := segno.HashOf(data)
	known, err := b.look(ctx, name, true)
	if err != nil || known {
		return name, err
	}
	o, err := b.sink.Encode(ctx, name, data)
	if err == nil && o.Data != nil {
		err = b.keep(ctx, o)
	}
	if err != nil {
		b.spoil(err)
	}
	return name, err
}

// Has implements [segno.Batch].
func (b *Batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	b.ending.RLock()
	defer b.ending.RUnlock()
	return b.look(ctx, name, false)
}

// look reports whether an object is in the batch or the store. If it is in neither and claim is
// set, look adds it to the batch, and the caller must encode it. If several callers have the same
// object, only one of them claims it.
func (b *Batch) look(ctx context.Context, name segno.Hash, claim bool) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, segno.NewError(segno.KindCancelled, "look for object", name.String(), err)
	}
	b.mu.Lock()
	_, known := b.seen[name]
	err := b.err
	b.mu.Unlock()
	if err != nil || known {
		return known && err == nil, err
	}
	inStore, err := b.sink.Has(ctx, name)
	if err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known = b.seen[name]; known {
		return true, nil
	}
	if inStore {
		b.found = append(b.found, segno.Object{Name: name})
	}
	if inStore || claim {
		b.seen[name] = struct{}{}
	}
	return inStore, nil
}

// keep adds an encoded object to the inline objects. It spills all of them if they exceed
// MaxInline.
func (b *Batch) keep(ctx context.Context, o segno.Object) error {
	b.mu.Lock()
	b.inline = append(b.inline, o)
	b.size += len(o.Data)
	var full []segno.Object
	if b.size > MaxInline {
		full, b.inline, b.size = b.inline, nil, 0
	}
	b.mu.Unlock()
	if full == nil {
		return nil
	}
	references, err := b.sink.Spill(ctx, full)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spilled = append(b.spilled, references...)
	return err
}

func (b *Batch) spoil(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// Stage implements [segno.Batch]. The result has objects without data. The batch found these in the
// store, and [Objects] makes the commit look for them again.
func (b *Batch) Stage(ctx context.Context) (segno.Staged, error) {
	b.ending.Lock()
	defer b.ending.Unlock()
	if b.err != nil {
		return segno.Staged{}, b.err
	}
	if err := ctx.Err(); err != nil {
		return segno.Staged{}, segno.NewError(segno.KindCancelled, "stage objects", "", err)
	}
	packs, err := b.sink.Finish(ctx)
	if err != nil {
		b.err = err
		return segno.Staged{}, err
	}
	b.done, b.err = true, errEnded()
	return segno.Staged{Objects: slices.Concat(b.inline, b.spilled, b.found), Packs: packs}, nil
}

// Close implements [segno.Batch].
func (b *Batch) Close() error {
	b.ending.Lock()
	defer b.ending.Unlock()
	if b.err == nil {
		b.err = errEnded()
	}
	if b.done {
		return nil
	}
	b.done = true
	return b.sink.Drop()
}
