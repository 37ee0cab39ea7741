package sqlite

import (
	"context"
	"errors"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

const (
	// mostInline is how many encoded bytes a commit's transaction carries; a
	// batch that grows beyond it goes into a pack.
	mostInline = 1 << 20
	// mostThought is how many bytes of a batch are compressed well. A batch that
	// goes on is bulk, a first snapshot, and compressed fast.
	mostThought = 4 << 20
	// maxCompressed is how many bytes of a batch are compressed at all. The rest is stored
	// plain, because the caller waits; [Store.CompressPacks] compresses it later.
	maxCompressed = 32 << 20
)

// batch is a [segno.Batch].
type batch struct {
	s *Store

	ending sync.RWMutex // held for reading by calls under way, for writing by the one that ends the batch

	mu     sync.Mutex // guards what follows
	err    error      // what went wrong first, or why the batch has ended
	staged bool
	mine   map[segno.Hash]struct{}
	reused map[segno.Hash]struct{}
	known  map[segno.Hash]struct{} // all of the store's as it names them, once that is cheaper than asking
	asked  int
	bytes  int64
	inline int
	small  []segno.Object
	pack   *packWriter
	plain  plainPacks
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch {
	return &batch{s: o.s, mine: map[segno.Hash]struct{}{}, reused: map[segno.Hash]struct{}{}}
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
	if err := b.store(name, data); err != nil {
		return name, b.spoil(fail("put object", name.String(), err))
	}
	return name, nil
}

// Has implements [segno.Batch].
func (b *batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	b.ending.RLock()
	defer b.ending.RUnlock()
	return b.look(ctx, name, false)
}

// look reports whether an object is in the batch or the store. With claim, one
// that is in neither is the caller's to store, and the batch's from now on.
func (b *batch) look(ctx context.Context, name segno.Hash, claim bool) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fail("look for object", name.String(), err)
	}
	found, sure, err := b.remember(ctx, name, claim)
	if err != nil || sure {
		return found, err
	}
	if found, err = (objects{b.s}).Has(ctx, name); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, mine := b.mine[name]; mine {
		return true, nil
	}
	b.note(name, found, claim)
	return found, nil
}

// remember answers from what the batch knows, if it does.
func (b *batch) remember(ctx context.Context, name segno.Hash, claim bool) (found, sure bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return false, true, b.err
	}
	if _, ok := b.mine[name]; ok {
		return true, true, nil
	}
	if _, ok := b.reused[name]; ok {
		return true, true, nil
	}
	if err := b.learn(ctx); err != nil {
		return false, true, err
	}
	if b.known == nil {
		return false, false, nil
	}
	_, found = b.known[b.s.named(name)]
	b.note(name, found, claim)
	return found, true, nil
}

func (b *batch) note(name segno.Hash, found, claim bool) {
	if found {
		b.reused[name] = struct{}{}
	} else if claim {
		b.mine[name] = struct{}{}
	}
}

// learn reads all names of the store once the batch has asked for a good part of
// as many: a name read in passing costs a fraction of a look-up.
func (b *batch) learn(ctx context.Context) error {
	const fraction = 4
	if b.known != nil {
		return nil
	}
	b.asked++
	if b.asked&(b.asked-1) != 0 { // look again at 1, 2, 4, 8, …
		return nil
	}
	return b.s.read(ctx, "read object names", "", func(ctx context.Context, c *conn) error {
		var count int
		if _, err := c.row(ctx, `SELECT (SELECT coalesce(sum(objects), 0) FROM packs) + (SELECT coalesce(max(n), 0) FROM small)`, nil, &count); err != nil {
			return err
		}
		if count > fraction*b.asked {
			return nil
		}
		b.known = make(map[segno.Hash]struct{}, count)
		return names(ctx, c, func(h segno.Hash) error {
			b.known[h] = struct{}{}
			return nil
		})
	})
}

// store encodes data and adds it to what is inline or to the pack.
func (b *batch) store(name segno.Hash, data []byte) error {
	b.mu.Lock()
	b.bytes += int64(len(data))
	bulk, plain := b.bytes > mostThought, b.bytes > maxCompressed
	b.mu.Unlock()
	if plain {
		return b.plain.add(b.s, b.s.named(name), data)
	}
	buf := b.s.squeeze.Buffer(len(data) + len(data)/8 + 64)
	defer b.s.squeeze.Free(buf)
	var e record.Encoding
	*buf = append((*buf)[:0], 0)
	if bulk {
		*buf, e = b.s.squeeze.Fast(*buf, data)
	} else {
		*buf, e = b.s.squeeze.Small(*buf, data)
	}
	(*buf)[0] = byte(e)
	stored, named := *buf, b.s.named(name)
	if b.s.seal != nil {
		stored = b.s.seal.Seal(stored, "object", string(named[:]))
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pack == nil && b.inline+len(stored) <= mostInline {
		b.inline += len(stored)
		b.small = append(b.small, segno.Object{Name: name, Size: int64(len(data)), Data: append([]byte(nil), stored...)})
		return nil
	}
	if err := b.spill(); err != nil {
		return err
	}
	return b.pack.add(named, int64(len(data)), record.Encoding(stored[0]), stored[1:])
}

// spill moves what is inline to a pack.
func (b *batch) spill() error {
	if b.pack != nil {
		return nil
	}
	var err error
	if b.pack, err = b.s.createPack(newPackName()); err != nil {
		return err
	}
	for _, o := range b.small {
		if err := b.pack.add(b.s.named(o.Name), o.Size, record.Encoding(o.Data[0]), o.Data[1:]); err != nil {
			return err
		}
	}
	b.small = nil
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

// Stage implements [segno.Batch]. An object without data in the result is one the
// batch found in the store: the commit makes sure that it still is there.
func (b *batch) Stage(ctx context.Context) (segno.Staged, error) {
	const op = "stage objects"
	b.ending.Lock()
	defer b.ending.Unlock()
	if b.err != nil {
		return segno.Staged{}, b.err
	}
	if err := ctx.Err(); err != nil {
		return segno.Staged{}, fail(op, "", err)
	}
	if err := b.s.enter(ctx, op); err != nil {
		return segno.Staged{}, err
	}
	defer b.s.calls.Done()
	staged := segno.Staged{Objects: b.small}
	if b.pack != nil {
		if err := b.pack.seal(); err != nil {
			return segno.Staged{}, b.spoil(fail(op, b.pack.name, err))
		}
		staged.Packs = []string{b.pack.name}
	}
	plain, err := b.plain.seal()
	if err != nil {
		return segno.Staged{}, b.spoil(fail(op, "", err))
	}
	staged.Packs = append(staged.Packs, plain...)
	for name := range b.reused {
		staged.Objects = append(staged.Objects, segno.Object{Name: name})
	}
	b.staged, b.err = true, errBatchEnded
	return staged, nil
}

// Close implements [segno.Batch].
func (b *batch) Close() error {
	b.ending.Lock()
	defer b.ending.Unlock()
	if b.staged {
		return nil
	}
	if b.err == nil {
		b.err = errBatchEnded
	}
	err := b.plain.abandon()
	if b.pack != nil {
		err = errors.Join(err, b.pack.abandon())
		b.pack = nil
	}
	return fail("close batch", "", err)
}
