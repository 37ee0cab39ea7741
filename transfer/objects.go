package transfer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
)

// The parallelism of a copy, and the number of objects that one request reads.
const (
	workers    = 4
	readNames  = 256
	askedNames = 8192 // objects about which the target is asked at once
)

// mover copies objects between two stores.
type mover struct {
	from, to segno.Store
	progress func(sent, missing int64)
	isDry    bool
	seen     map[segno.Hash]bool // objects that were looked at

	missing, sent, bytes atomic.Int64
}

// reached lists the objects of the source that a query selects.
func (m *mover) reached(ctx context.Context, q reachable.Query) iter.Seq2[segno.Hash, error] {
	if l, ok := m.from.(ObjectLister); ok {
		return l.ReachedObjects(ctx, q.Thread, q.At, q.Without)
	}
	return reachable.Objects(ctx, m.from, q)
}

// move copies the selected objects that the target lacks. They are durable on return.
func (m *mover) move(ctx context.Context, q reachable.Query) error {
	var names []segno.Hash
	for name, err := range m.reached(ctx, q) {
		if err != nil {
			return err
		}
		if m.seen[name] {
			continue
		}
		m.seen[name] = true
		if names = append(names, name); len(names) == askedNames {
			if err := m.moveMissing(ctx, names); err != nil {
				return err
			}
			names = names[:0]
		}
	}
	return m.moveMissing(ctx, names)
}

// moveMissing copies those of the objects that the target lacks.
func (m *mover) moveMissing(ctx context.Context, names []segno.Hash) error {
	if len(names) == 0 {
		return nil
	}
	missing, err := m.find(ctx, names)
	if err != nil || len(missing) == 0 {
		return err
	}
	m.missing.Add(int64(len(missing)))
	if m.isDry {
		return m.measure(ctx, missing)
	}
	batch := m.to.Objects().Batch()
	defer batch.Close()
	if err := m.read(ctx, missing, func(name segno.Hash, data []byte) error { return m.put(ctx, batch, name, data) }); err != nil {
		return err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return err
	}
	return m.to.Objects().Keep(ctx, staged)
}

func (m *mover) put(ctx context.Context, batch segno.Batch, name segno.Hash, data []byte) error {
	got, err := batch.Put(ctx, data)
	if err != nil {
		return err
	}
	if got != name {
		return segno.Errorf(segno.KindCorrupt, "copy object", name.String(), "the bytes have the hash %s", got)
	}
	m.bytes.Add(int64(len(data)))
	sent := m.sent.Add(1)
	if m.progress != nil {
		m.progress(sent, m.missing.Load())
	}
	return nil
}

// measure counts the bytes of objects, unless they would have to be fetched from another machine.
func (m *mover) measure(ctx context.Context, names []segno.Hash) error {
	m.sent.Add(int64(len(names)))
	if _, isFar := m.from.(ObjectReader); isFar {
		m.bytes.Store(-1)
		return nil
	}
	return m.read(ctx, names, func(_ segno.Hash, data []byte) error {
		m.bytes.Add(int64(len(data)))
		return nil
	})
}

// find returns the objects that the target lacks.
func (m *mover) find(ctx context.Context, names []segno.Hash) (missing []segno.Hash, err error) {
	if f, ok := m.to.(ObjectFinder); ok {
		return f.MissingObjects(ctx, names)
	}
	objects := m.to.Objects()
	for _, name := range names {
		has, err := objects.Has(ctx, name)
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// read calls visit for each object of the source, from several goroutines. A missing object is
// [segno.KindCorrupt], because a record of the source names it.
func (m *mover) read(ctx context.Context, names []segno.Hash, visit func(segno.Hash, []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	chunks := make(chan []segno.Hash)
	for range workers {
		all.Go(func() {
			for chunk := range chunks {
				if err := m.readChunk(ctx, chunk, visit); err != nil {
					cancel(err)
				}
			}
		})
	}
	for chunk := range slices.Chunk(names, max(1, min(readNames, len(names)/workers))) {
		select {
		case chunks <- chunk:
		case <-ctx.Done():
		}
	}
	close(chunks)
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	} else if err != nil {
		return segno.NewError(segno.KindCancelled, "copy objects", "", err)
	}
	return nil
}

func (m *mover) readChunk(ctx context.Context, names []segno.Hash, visit func(segno.Hash, []byte) error) error {
	if r, ok := m.from.(ObjectReader); ok {
		return reachable.MissingIsCorrupt(r.ReadObjects(ctx, names, visit))
	}
	objects := m.from.Objects()
	for _, name := range names {
		data, err := objects.Get(ctx, name)
		if err != nil {
			return reachable.MissingIsCorrupt(err)
		}
		if err := visit(name, data); err != nil {
			return err
		}
	}
	return nil
}
