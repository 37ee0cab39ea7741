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
	"github.com/dalsegno/segno/internal/record"
)

// An object that is kept has one value: its encoding, its size, how many values
// its bytes have outside, and its bytes if that is none. Bulk is written outside
// when it is staged, where nothing reads it until that one value is there.

// staging is how long bulk waits for its commit in a store whose threads expire.
const staging = 24 * time.Hour

const (
	inlineObjects = 1 << 20 // how many bytes a batch leaves in its result
	mostPacked    = 8 << 10 // how many objects a pack lists
)

// kept is an object as it is stored.
type kept struct {
	name  segno.Hash
	code  record.Encoding
	size  int64
	parts int
	sum   uint32 // names the parts: another zstd may write other bytes
	data  []byte // nil if it is outside
}

func (x *kept) encode() []byte {
	var w writer
	w.byte(byte(x.code))
	w.uint(uint64(x.size))
	w.uint(uint64(x.parts))
	w.uint(uint64(x.sum))
	w.fixed(x.data)
	return w.b
}

func (x *kept) read(r *reader) {
	x.code, x.size, x.parts = record.Encoding(r.byte()), int64(r.uint()), int(r.uint())
	x.sum = uint32(r.uint())
}

type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	end, err := o.s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	data, err := o.s.object(ctx, name)
	return data, fail(op, name.String(), err)
}

func (s *Store) object(ctx context.Context, name segno.Hash) ([]byte, error) {
	key := s.objectKey(name)
	val, _, err := s.kv.Get(ctx, key)
	if err != nil {
		if segno.KindOf(err) == segno.KindNotFound {
			err = segno.NewError(segno.KindNotFound, "", "", nil)
		}
		return nil, err
	}
	content, err := s.code.unframe(key, val)
	if err != nil {
		return nil, err
	}
	r := reader{b: content}
	x := kept{name: name}
	x.read(&r)
	if r.err != nil {
		return nil, damaged(key, r.err)
	}
	stored := r.b
	if x.parts > 0 {
		if stored, err = s.outside(ctx, &x); err != nil {
			return nil, err
		}
	}
	data, err := s.code.Expand(x.code, stored, x.size)
	if err == nil && segno.HashOf(data) != name {
		err = errors.New("its bytes are not what it is named for")
	}
	if err != nil {
		return nil, damaged(key, err)
	}
	return data, nil
}

func (s *Store) outside(ctx context.Context, x *kept) ([]byte, error) {
	keys := make([]string, x.parts)
	for i := range keys {
		keys[i] = s.objectChunk(x.name, x.sum, i)
	}
	vals, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	return s.join(keys, vals)
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	const op = "look for object"
	end, err := o.s.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer end()
	vals, err := o.s.getAll(ctx, []string{o.s.objectKey(name)})
	if err != nil {
		return false, fail(op, name.String(), err)
	}
	return vals[0] != nil, nil
}

// Keep implements [segno.Objects]. In a store whose threads expire what is kept
// lives as long as a thread does, and at least an hour.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	end, err := o.s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer end()
	w := &written{Commit: segno.Commit{Staged: staged}}
	if w.packed, err = o.s.openPacks(ctx, staged.Packs); err == nil {
		err = o.s.admitObjects(ctx, w)
	}
	if err == nil {
		_, err = o.s.run(ctx, o.s.objectOps(w))
	}
	return fail(op, "", err)
}

// objectOps make staged objects the store's, and give all that a commit names
// their time. What must be there already comes first: where changes are made one
// by one, nothing is written if it is not.
func (s *Store) objectOps(w *written) []Op {
	ttl := s.objectTTL()
	comes := map[segno.Hash][]byte{}
	for _, x := range w.packed {
		comes[x.name] = x.encode()
	}
	for _, o := range w.Staged.Objects {
		if o.Data != nil {
			comes[o.Name] = o.Data
		}
	}
	var checks, puts []Op
	for _, h := range w.objects() {
		if content, ok := comes[h]; ok {
			puts = append(puts, Op{Key: s.objectKey(h), Val: s.code.frame(s.objectKey(h), content), If: RevAny, TTL: ttl})
		} else {
			checks = append(checks, Op{Do: ActCheck, Key: s.objectKey(h), If: RevSome, TTL: ttl})
		}
	}
	return append(checks, puts...)
}

// objectTTL is how long an object lives from when something named it.
func (s *Store) objectTTL() time.Duration {
	if s.options.TTL == 0 {
		return 0
	}
	return max(2*s.options.TTL, time.Hour)
}

// openPacks reads what is in packs.
func (s *Store) openPacks(ctx context.Context, packs []string) (all []kept, err error) {
	for _, name := range packs {
		key := packKey(name)
		val, _, err := s.kv.Get(ctx, key)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			err = segno.NewError(segno.KindNotFound, "read pack", name, nil)
		}
		if err != nil {
			return nil, err
		}
		content, err := s.code.unframe(key, val)
		if err != nil {
			return nil, err
		}
		r := reader{b: content}
		for len(r.b) > 0 {
			var x kept
			copy(x.name[:], r.fixed(uint64(len(x.name))))
			x.read(&r)
			all = append(all, x)
		}
		if r.err != nil {
			return nil, damaged(key, r.err)
		}
	}
	return all, nil
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return &batch{s: o.s, seen: map[segno.Hash]bool{}} }

// batch collects objects.
type batch struct {
	s *Store

	mu    sync.Mutex
	ended bool
	seen  map[segno.Hash]bool
	found []segno.Hash // in the store
	out   []kept
	bytes int
}

var errEnded = segno.Errorf(segno.KindInvalid, "put object", "", "the batch has ended")

// Put implements [segno.Batch].
func (b *batch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	name := segno.HashOf(data)
	if ok, err := b.Has(ctx, name); ok || err != nil {
		return name, err
	}
	stored, code := b.s.code.Small(nil, data)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return name, errEnded
	}
	if !b.seen[name] {
		b.seen[name] = true
		b.out = append(b.out, kept{name: name, code: code, size: int64(len(data)), data: stored})
		b.bytes += len(stored)
	}
	return name, nil
}

// Has implements [segno.Batch].
func (b *batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	b.mu.Lock()
	ended, seen := b.ended, b.seen[name]
	b.mu.Unlock()
	if ended {
		return false, errEnded
	}
	if seen {
		return true, nil
	}
	ok, err := objects{b.s}.Has(ctx, name)
	if err != nil || !ok {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seen[name] {
		b.seen[name] = true
		b.found = append(b.found, name)
	}
	return true, nil
}

// Stage implements [segno.Batch].
func (b *batch) Stage(ctx context.Context) (staged segno.Staged, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	const op = "stage objects"
	end, err := b.s.begin(ctx, op)
	if err != nil {
		return staged, err
	}
	defer end()
	if b.ended {
		return staged, errEnded
	}
	b.ended = true
	slices.SortStableFunc(b.out, func(x, y kept) int { return len(x.data) - len(y.data) })
	room := inlineObjects
	var bulk []kept
	for _, x := range b.out {
		content := x.encode()
		if room -= len(content); room < 0 || len(content) > mostValue {
			bulk = append(bulk, x)
			continue
		}
		staged.Objects = append(staged.Objects, segno.Object{Name: x.name, Size: x.size, Data: content})
	}
	for _, name := range b.found {
		staged.Objects = append(staged.Objects, segno.Object{Name: name})
	}
	for part := range slices.Chunk(bulk, mostPacked) {
		pack, err := b.s.putPack(ctx, part)
		if err != nil {
			return segno.Staged{}, fail(op, "", err)
		}
		staged.Packs = append(staged.Packs, pack)
	}
	return staged, nil
}

// putPack writes objects outside, and a list of them.
func (s *Store) putPack(ctx context.Context, bulk []kept) (name string, err error) {
	name = strings.ToLower(rand.Text())
	ttl := time.Duration(0)
	if s.options.TTL > 0 {
		ttl = max(staging, s.objectTTL())
	}
	var list writer
	for _, x := range bulk {
		data := x.data
		x.sum = s.code.seal.Cuts(data, crc32.ChecksumIEEE)
		for part := 0; part == 0 || len(data) > 0; part++ {
			n := min(len(data), mostValue)
			key := s.objectChunk(x.name, x.sum, part)
			if _, err := s.run(ctx, []Op{{Key: key, Val: s.code.frame(key, data[:n]), If: RevAny, TTL: ttl}}); err != nil {
				return "", fmt.Errorf("writing object %s: %w", x.name, err)
			}
			data, x.parts = data[n:], part+1
		}
		x.data = nil
		list.fixed(x.name[:])
		list.fixed(x.encode())
	}
	key := packKey(name)
	_, err = s.run(ctx, []Op{{Key: key, Val: s.code.frame(key, list.b), If: RevAny, TTL: ttl}})
	return name, err
}

// Close implements [segno.Batch].
func (b *batch) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return nil
}
