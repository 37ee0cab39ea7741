package memory

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/ledger"
)

// object is a stored object.
type object struct {
	data []byte
	used time.Time // when it was last written, or named by a commit
}

// objects is the [segno.Objects] of a store.
type objects struct{ m *memory }

// Objects implements [threadlog.Logs].
func (m *memory) Objects() segno.Objects { return objects{m} }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	_, leave, err := o.m.Enter(ctx, op, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	if x := o.m.objects[name]; x != nil {
		return append([]byte{}, x.data...), nil
	}
	return nil, segno.NewError(segno.KindNotFound, op, name.String(), nil)
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	_, leave, err := o.m.Enter(ctx, "look for object", false)
	if err != nil {
		return false, err
	}
	defer leave()
	return o.m.objects[name] != nil, nil
}

// Keep implements [segno.Objects].
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	_, leave, err := o.m.Enter(ctx, "keep objects", true)
	if err != nil {
		return err
	}
	defer leave()
	return o.m.KeepObjects(staged)
}

// KeepObjects implements [threadlog.Logs].
func (m *memory) KeepObjects(staged segno.Staged) error {
	for _, o := range staged.Objects {
		x := m.objects[o.Name]
		switch {
		case x != nil:
		case o.Data == nil:
			return segno.NewError(segno.KindNotFound, "keep objects", o.Name.String(), nil)
		case segno.HashOf(o.Data) != o.Name:
			return segno.Errorf(segno.KindCorrupt, "keep objects", o.Name.String(), "the staged bytes do not match the name")
		default:
			x = &object{data: slices.Clone(o.Data)}
			m.objects[o.Name] = x
		}
		x.used = m.clock()
	}
	return nil
}

// Missing implements [threadlog.Logs]. There are no packs.
func (m *memory) Missing(names []segno.Hash, _ []string) (segno.Hash, error) {
	for _, name := range names {
		x := m.objects[name]
		if x == nil {
			return name, nil
		}
		x.used = m.clock()
	}
	return segno.Hash{}, nil
}

// Count implements [threadlog.Logs].
func (m *memory) Count(names map[segno.Hash]bool) (n int, bytes int64, err error) {
	for name := range names {
		if x := m.objects[name]; x != nil {
			n, bytes = n+1, bytes+int64(len(x.data))
		}
	}
	return n, bytes, nil
}

// RemoveObjects implements [threadlog.Logs].
func (m *memory) RemoveObjects(names map[segno.Hash]bool) error {
	for name := range names {
		delete(m.objects, name)
	}
	return nil
}

// unreached returns the objects that are not in reached and were not used within an hour. The caller
// holds the index.
func (m *memory) unreached(reached map[segno.Hash]bool) map[segno.Hash]bool {
	found, old := map[segno.Hash]bool{}, m.clock().Add(-time.Hour)
	for name, x := range m.objects {
		if !reached[name] && !x.used.After(old) {
			found[name] = true
		}
	}
	return found
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return ledger.NewBatch(sink{o}) }

// sink is the [ledger.Sink] of a batch, all of which stays in memory.
type sink struct{ objects }

func (k sink) Encode(_ context.Context, name segno.Hash, data []byte) (segno.Object, error) {
	return segno.Object{Name: name, Size: int64(len(data)), Data: append([]byte{}, data...)}, nil
}

func (k sink) Spill(_ context.Context, all []segno.Object) ([]segno.Object, error) { return all, nil }

func (k sink) Finish(ctx context.Context) ([]string, error) {
	_, leave, err := k.m.Enter(ctx, "stage objects", false)
	if err == nil {
		leave()
	}
	return nil, err
}

func (k sink) Drop() error { return nil }
