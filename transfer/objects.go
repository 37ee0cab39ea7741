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

// again returns a mover that has looked at no objects.
func (m *mover) again() *mover {
	return &mover{from: m.from, to: m.to, seen: map[segno.Hash]bool{{}: true}}
}

// reached lists the objects of the source that a query selects.
func (m *mover) reached(ctx context.Context, q reachable.Query) iter.Seq2[segno.Hash, error] {
	if l, ok := m.from.(ObjectLister); ok {
		return l.ReachedObjects(ctx, q.Thread, q.At, q.Without)
	}
	return reachable.Objects(ctx, m.from, q)
}

// move copies the selected objects that the target lacks. They are durable on return. roots are those that the commits or the links
// of the query name.
//
// The roots come first. A collection in the target drops objects that no commit reaches once they are an hour old, and a copy may
// take longer. The target refuses a commit only if a root is missing, and then the copy sends all its objects again. So
// no root may be younger there than an object that was found there at the beginning.
func (m *mover) move(ctx context.Context, q reachable.Query, roots []segno.Hash) error {
	if err := m.moveNew(ctx, roots); err != nil {
		return err
	}
	// The whole list comes before the objects: a server ends a response of which the client reads nothing for a minute, and the
	// objects may take longer.
	var names []segno.Hash
	for name, err := range m.reached(ctx, q) {
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	return m.moveNew(ctx, names)
}

// moveNew copies the objects that it has not looked at and that the target lacks.
func (m *mover) moveNew(ctx context.Context, names []segno.Hash) error {
	names = slices.DeleteFunc(names, func(name segno.Hash) bool {
		again := m.seen[name]
		m.seen[name] = true
		return again
	})
	for some := range slices.Chunk(names, askedNames) {
		if err := m.moveMissing(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// moveMissing copies those of the objects that the target lacks.
func (m *mover) moveMissing(ctx context.Context, names []segno.Hash) error {
	missing, err := m.find(ctx, names)
	if err != nil || len(missing) == 0 {
		return err
	}
	m.missing.Add(int64(len(missing)))
	if m.isDry {
		return m.measure(ctx, missing)
	}
	b := &batches{to: m.to.Objects()}
	defer b.close()
	if err := m.read(ctx, missing, func(name segno.Hash, data []byte) error { return m.put(ctx, b, name, data) }); err != nil {
		return err
	}
	return b.keep(ctx, 0)
}

func (m *mover) put(ctx context.Context, b *batches, name segno.Hash, data []byte) error {
	got, err := b.put(ctx, data)
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
	return b.keep(ctx, keptBytes)
}

// keptBytes is the size of the objects after which a copy makes them durable, so that an interrupted copy need not send
// them again.
const keptBytes = 32 << 20

// batches puts objects into one batch after another. Several goroutines may use it.
type batches struct {
	to segno.Objects

	mu    sync.RWMutex // held shared by puts, exclusively while a batch ends or begins
	batch segno.Batch  // nil until the first object
	bytes atomic.Int64 // put into batch
}

func (b *batches) put(ctx context.Context, data []byte) (segno.Hash, error) {
	b.mu.RLock()
	for b.batch == nil {
		b.mu.RUnlock()
		b.mu.Lock()
		if b.batch == nil {
			b.batch = b.to.Batch()
		}
		b.mu.Unlock()
		b.mu.RLock()
	}
	defer b.mu.RUnlock()
	b.bytes.Add(int64(len(data)))
	return b.batch.Put(ctx, data)
}

// keep makes the objects durable if they have at least so many bytes.
func (b *batches) keep(ctx context.Context, least int64) error {
	if b.bytes.Load() < least {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batch == nil || b.bytes.Load() < least {
		return nil
	}
	staged, err := b.batch.Stage(ctx)
	if err == nil {
		err = b.to.Keep(ctx, staged)
	}
	if err != nil {
		return err
	}
	b.batch = nil
	b.bytes.Store(0)
	return nil
}

func (b *batches) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batch != nil {
		_ = b.batch.Close() // an error has been returned already
	}
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

// find returns the objects that the target lacks. The target keeps the others until the commits that reach them are there.
func (m *mover) find(ctx context.Context, names []segno.Hash) (missing []segno.Hash, err error) {
	if f, ok := m.to.(ObjectFinder); ok {
		missing, err = f.MissingObjects(ctx, names)
		return onlyAsked(names, missing), err
	}
	objects := m.to.Objects()
	if !m.isDry {
		return reachable.Missing(ctx, objects, names)
	}
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

// onlyAsked removes the names about which the target was not asked. They may be those of objects of other threads, which a server
// must not get.
func onlyAsked(names, missing []segno.Hash) []segno.Hash {
	asked := make(map[segno.Hash]bool, len(names))
	for _, name := range names {
		asked[name] = true
	}
	return slices.DeleteFunc(missing, func(name segno.Hash) bool { return !asked[name] })
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
