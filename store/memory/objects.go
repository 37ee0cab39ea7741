package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

type object struct {
	data []byte
	born time.Time
}

type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	end, err := o.s.begin(ctx, "read object")
	if err != nil {
		return nil, err
	}
	defer end()
	x, ok := o.s.objects[name]
	if !ok {
		return nil, notFound("read object", name.String())
	}
	return append([]byte{}, x.data...), nil
}

func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	end, err := o.s.begin(ctx, "look for object")
	if err != nil {
		return false, err
	}
	defer end()
	_, ok := o.s.objects[name]
	return ok, nil
}

func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	end, err := o.s.begin(ctx, "keep objects")
	if err != nil {
		return err
	}
	defer end()
	return o.s.keep(staged)
}

// keep makes staged objects the store's. One without data was found in the store
// by its batch and must still be there.
func (s *Store) keep(staged segno.Staged) error {
	for _, x := range staged.Objects {
		if _, ok := s.objects[x.Name]; !ok && x.Data == nil {
			return notFound("keep objects", x.Name.String())
		}
	}
	for _, x := range staged.Objects {
		data := s.objects[x.Name].data
		if x.Data != nil {
			data = append([]byte{}, x.Data...)
		}
		s.objects[x.Name] = object{data: data, born: s.clock()}
	}
	return nil
}

func (o objects) Batch() segno.Batch { return &batch{s: o.s, seen: map[segno.Hash]bool{}} }

type batch struct {
	s *Store

	mu    sync.Mutex // taken before the store's
	ended bool
	seen  map[segno.Hash]bool
	out   []segno.Object
}

var errEnded = segno.Errorf(segno.KindInvalid, "put object", "", "the batch has ended")

func (b *batch) Put(ctx context.Context, data []byte) (segno.Hash, error) {
	name := segno.HashOf(data)
	if ok, err := b.Has(ctx, name); ok || err != nil {
		return name, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seen[name] {
		b.seen[name] = true
		b.out = append(b.out, segno.Object{Name: name, Size: int64(len(data)), Data: append([]byte{}, data...)})
	}
	return name, nil
}

func (b *batch) Has(ctx context.Context, name segno.Hash) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false, errEnded
	}
	ok, err := (objects{b.s}).Has(ctx, name)
	if ok && !b.seen[name] {
		b.seen[name] = true
		b.out = append(b.out, segno.Object{Name: name})
	}
	return b.seen[name], err
}

func (b *batch) Stage(ctx context.Context) (segno.Staged, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end, err := b.s.begin(ctx, "stage objects")
	if err != nil {
		return segno.Staged{}, err
	}
	defer end()
	if b.ended {
		return segno.Staged{}, errEnded
	}
	b.ended = true
	return segno.Staged{Objects: slices.Clone(b.out)}, nil
}

func (b *batch) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return nil
}
