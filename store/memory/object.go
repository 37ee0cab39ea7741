package memory

import (
	"io/fs"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

// object is a stored object.
type object struct {
	data []byte
	used time.Time // when it was last written, or a committed batch found it
}

// ReadObject implements [threadlog.Logs].
func (m *memory) ReadObject(name segno.Hash) ([]byte, error) {
	m.objectsMu.Lock()
	defer m.objectsMu.Unlock()
	if x := m.objects[name]; x != nil {
		return append([]byte{}, x.data...), nil
	}
	return nil, fs.ErrNotExist
}

// Missing implements [threadlog.Logs]. There are no packs.
func (m *memory) Missing(names []segno.Hash, _ []string) (segno.Hash, error) {
	m.objectsMu.Lock()
	defer m.objectsMu.Unlock()
	for _, name := range names {
		if m.objects[name] == nil {
			return name, nil
		}
	}
	return segno.Hash{}, nil
}

// KeepObjects implements [threadlog.Logs].
func (m *memory) KeepObjects(staged segno.Staged) error {
	m.objectsMu.Lock()
	defer m.objectsMu.Unlock()
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

// RemoveObjects implements [threadlog.Logs].
func (m *memory) RemoveObjects(names []segno.Hash, dryRun bool) (n int, bytes int64, err error) {
	m.objectsMu.Lock()
	defer m.objectsMu.Unlock()
	for _, name := range names {
		if x := m.objects[name]; x != nil {
			n, bytes = n+1, bytes+int64(len(x.data))
		}
		if !dryRun {
			delete(m.objects, name)
		}
	}
	return n, bytes, nil
}

// unreached returns the objects that are not in reached and were not used within an hour.
func (m *memory) unreached(reached map[segno.Hash]bool) (found []segno.Hash) {
	m.objectsMu.Lock()
	defer m.objectsMu.Unlock()
	old := m.clock().Add(-time.Hour)
	for name, x := range m.objects {
		if !reached[name] && !x.used.After(old) {
			found = append(found, name)
		}
	}
	return found
}

// NewPacks implements [threadlog.Logs].
func (m *memory) NewPacks() threadlog.Packs { return noPacks{} }

// noPacks leaves all objects of a batch to its commit.
type noPacks struct{}

func (noPacks) Spill(all []segno.Object) ([]segno.Object, error) { return all, nil }
func (noPacks) Finish() ([]string, error)                        { return nil, nil }
func (noPacks) Drop() error                                      { return nil }
