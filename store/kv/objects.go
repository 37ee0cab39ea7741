package kv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ledger"
	"github.com/dalsegno/segno/internal/record"
)

// An object has one value: its encoding, its size, in how many other values its bytes are, and the
// bytes if that number is 0. Bulk is written to those other values when it is staged. The object
// does not exist before its own value does.

// keptObject is an object as it is stored.
type keptObject struct {
	name  segno.Hash
	code  record.Encoding
	size  int64
	parts int
	sum   uint32 // names the parts, because another version of zstd may write other bytes
	data  []byte // without parts
}

func (x *keptObject) encode() []byte {
	var w writer
	w.byte(byte(x.code))
	w.uint(uint64(x.size))
	w.uint(uint64(x.parts))
	w.uint(uint64(x.sum))
	w.fixed(x.data)
	return w.b
}

func (x *keptObject) read(r *reader) {
	x.code, x.size, x.parts = record.Encoding(r.byte()), int64(r.uint()), int(r.uint())
	x.sum = uint32(r.uint())
}

type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	return call(ctx, o.s, "read object", name.String(), func() ([]byte, error) { return o.s.object(ctx, name) })
}

func (s *Store) object(ctx context.Context, name segno.Hash) ([]byte, error) {
	key := s.objectKey(name)
	val, _, err := s.get(ctx, key)
	if err == nil && val == nil {
		err = segno.NewError(segno.KindNotFound, "", "", nil)
	}
	if err != nil {
		return nil, err
	}
	x := keptObject{name: name}
	if err := s.code.decode(key, val, func(r *reader) {
		x.read(r)
		x.data = r.b
	}); err != nil {
		return nil, err
	}
	if x.parts > 0 {
		keys := make([]string, x.parts)
		for i := range keys {
			keys[i] = s.objectPart(name, x.sum, i)
		}
		vals, err := s.getAll(ctx, keys)
		if err != nil {
			return nil, err
		}
		if x.data, err = s.join(keys, vals); err != nil {
			return nil, err
		}
	}
	data, err := s.code.Expand(x.code, x.data, x.size)
	if err == nil && segno.HashOf(data) != name {
		err = errors.New("its bytes do not match its name")
	}
	if err != nil {
		return nil, damaged(key, err)
	}
	return data, nil
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	return call(ctx, o.s, "look for object", name.String(), func() (bool, error) {
		missing, err := o.s.missingObject(ctx, []segno.Hash{name}, nil)
		return err == nil && missing.IsZero(), err
	})
}

// missingObject returns the first of names that is neither in the store nor in packed, or the zero
// hash.
func (s *Store) missingObject(ctx context.Context, names []segno.Hash, packed []keptObject) (segno.Hash, error) {
	inPack := make(map[segno.Hash]bool, len(packed))
	for _, x := range packed {
		inPack[x.name] = true
	}
	var keys []string
	var asked []segno.Hash
	for _, h := range names {
		if !inPack[h] {
			keys, asked = append(keys, s.objectKey(h)), append(asked, h)
		}
	}
	vals, err := s.getAll(ctx, keys)
	for i, val := range vals {
		if val == nil {
			return asked[i], nil
		}
	}
	return segno.Hash{}, err
}

// Keep implements [segno.Objects]. In a store whose threads expire an object that was kept lives as
// long as a thread does, and at least an hour.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	return o.s.run(ctx, op, "", func() (err error) {
		p := &pending{Commit: segno.Commit{Staged: staged}}
		if p.packed, err = o.s.readPacks(ctx, staged.Packs); err != nil {
			return err
		}
		missing, err := o.s.missingObject(ctx, ledger.Objects(&p.Commit), p.packed)
		if err == nil && !missing.IsZero() {
			err = segno.Errorf(segno.KindNotFound, op, missing.String(), "the object does not exist")
		}
		if err == nil {
			_, err = o.s.apply(ctx, o.s.objectOps(p))
		}
		return err
	})
}

// objects returns all objects that a commit brings or names, each once.
func (p *pending) objects() []segno.Hash {
	c := p.Commit
	c.Needs = slices.Clone(c.Needs)
	for _, x := range p.packed {
		c.Needs = append(c.Needs, x.name)
	}
	for _, o := range c.Staged.Objects {
		c.Needs = append(c.Needs, o.Name)
	}
	return c.Refs()
}

// objectOps write staged objects, and extend the time to live of all objects that a commit names.
// The checks of objects that must exist come first: a KV that makes changes one by one then writes
// nothing if one does not exist.
func (s *Store) objectOps(p *pending) []Op {
	ttl := s.objectTTL()
	brought := map[segno.Hash][]byte{}
	for _, x := range p.packed {
		brought[x.name] = x.encode()
	}
	for _, o := range p.Staged.Objects {
		if o.Data != nil {
			brought[o.Name] = o.Data
		}
	}
	var checks, puts []Op
	for _, h := range p.objects() {
		key := s.objectKey(h)
		if content, ok := brought[h]; ok {
			puts = append(puts, Op{Key: key, Val: s.code.frame(key, content), If: RevAny, TTL: ttl})
		} else {
			checks = append(checks, Op{Do: ActCheck, Key: key, If: RevSome, TTL: ttl})
		}
	}
	return append(checks, puts...)
}

// objectTTL is how long an object lives after a commit has named it.
func (s *Store) objectTTL() time.Duration {
	if s.options.TTL == 0 {
		return 0
	}
	return max(2*s.options.TTL, time.Hour)
}

// readPacks reads the lists of objects that packs contain.
func (s *Store) readPacks(ctx context.Context, packs []string) (all []keptObject, err error) {
	for _, name := range packs {
		key := packKey(name)
		val, _, err := s.get(ctx, key)
		if err == nil && val == nil {
			err = segno.NewError(segno.KindNotFound, "read pack", name, nil)
		}
		if err != nil {
			return nil, err
		}
		if err := s.code.decode(key, val, func(r *reader) {
			for len(r.b) > 0 {
				x := keptObject{name: r.hash()}
				x.read(r)
				all = append(all, x)
			}
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return ledger.NewBatch(&sink{s: o.s}) }

// sink writes the bulk of a batch: [ledger.Sink].
type sink struct {
	s *Store

	mu   sync.Mutex // guards what follows
	bulk []keptObject
}

func (k *sink) Has(ctx context.Context, name segno.Hash) (bool, error) {
	return objects{k.s}.Has(ctx, name)
}

func (k *sink) Encode(ctx context.Context, name segno.Hash, data []byte) (segno.Object, error) {
	x := keptObject{name: name, size: int64(len(data))}
	x.data, x.code = k.s.code.Small(nil, data)
	o := segno.Object{Name: name, Size: x.size}
	if len(x.data) > maxValue-64 {
		return o, k.writeParts(ctx, x)
	}
	o.Data = x.encode()
	return o, nil
}

func (k *sink) Spill(ctx context.Context, all []segno.Object) ([]segno.Object, error) {
	for _, o := range all {
		x := keptObject{name: o.Name}
		r := reader{b: o.Data}
		x.read(&r)
		x.data = r.b
		if err := k.writeParts(ctx, x); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// stagedTTL is how long bulk waits for its commit in a store whose threads expire.
func (s *Store) stagedTTL() time.Duration {
	const day = 24 * time.Hour
	if s.options.TTL == 0 {
		return 0
	}
	return max(day, s.objectTTL())
}

// writeParts writes the bytes of an object that will be in a pack.
func (k *sink) writeParts(ctx context.Context, x keptObject) error {
	s, data := k.s, x.data
	x.data, x.sum = nil, s.code.seal.Cuts(data, crc32.ChecksumIEEE)
	err := s.run(ctx, "put object", x.name.String(), func() error {
		for ; x.parts == 0 || len(data) > 0; x.parts++ {
			n := min(len(data), maxValue)
			key := s.objectPart(x.name, x.sum, x.parts)
			if _, err := s.apply(ctx, []Op{{Key: key, Val: s.code.frame(key, data[:n]), If: RevAny, TTL: s.stagedTTL()}}); err != nil {
				return err
			}
			data = data[n:]
		}
		return nil
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bulk = append(k.bulk, x)
	return err
}

// Finish writes the lists of the objects that are bulk.
func (k *sink) Finish(ctx context.Context) (packs []string, err error) {
	const maxListed = 8 << 10
	return call(ctx, k.s, "stage objects", "", func() ([]string, error) {
		for bulk := k.bulk; len(bulk) > 0; {
			n := min(len(bulk), maxListed)
			var list writer
			for _, x := range bulk[:n] {
				list.fixed(x.name[:])
				list.fixed(x.encode())
			}
			name := strings.ToLower(rand.Text())
			key := packKey(name)
			if _, err := k.s.apply(ctx, []Op{{Key: key, Val: k.s.code.frame(key, list.b), If: RevAny, TTL: k.s.stagedTTL()}}); err != nil {
				return nil, fmt.Errorf("writing pack %s: %w", name, err)
			}
			packs, bulk = append(packs, name), bulk[n:]
		}
		return packs, nil
	})
}

// Drop leaves bulk without a commit; see the package comment.
func (k *sink) Drop() error { return nil }
