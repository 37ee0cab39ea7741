package workspace

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// Tracer traces the snapshots of a store, one after the other. A file may have exactly the bytes of
// the object of a directory, for example a file of a store in package store/file. Both are then the
// same object, and visit returns false for the directory if it has already received the file. So a
// Tracer remembers the objects of directories that it has read. The zero value is ready to use, for
// one goroutine at a time. A later call may pass another visit, which has received no objects yet.
type Tracer struct {
	// read has the objects of directories. The value is true if visit received the object as the content of
	// a file since the Tracer read it last.
	read map[segno.Hash]bool
}

// Trace calls visit for each object that the snapshot reaches, and descends into those for which
// visit returns true, or that the Tracer has not read as the object of a directory. It needs no
// directory, because a collection also traces snapshots of trees that no longer exist.
func (t *Tracer) Trace(ctx context.Context, objects segno.Objects, s segno.Snapshot, visit func(segno.Hash) bool) error {
	if t.read == nil {
		t.read = make(map[segno.Hash]bool)
	}
	if err := t.tree(ctx, objects, s.Tree, visit); err != nil {
		return err
	}
	return t.times(ctx, objects, s.Times, visit)
}

func (t *Tracer) tree(ctx context.Context, objects getter, name segno.Hash, visit func(segno.Hash) bool) error {
	isNew, enter := t.enter(name, visit)
	if !enter {
		return nil
	}
	records, err := loadTree(ctx, objects, name)
	if err != nil {
		return lost(isNew, err)
	}
	for i := range records {
		for _, leaf := range []segno.Hash{records[i].Hash, records[i].Xattrs} {
			t.leaf(leaf, visit)
		}
		if err := t.tree(ctx, objects, records[i].child, visit); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tracer) times(ctx context.Context, objects getter, name segno.Hash, visit func(segno.Hash) bool) error {
	isNew, enter := t.enter(name, visit)
	if !enter {
		return nil
	}
	records, err := loadTimes(ctx, objects, name)
	if err != nil {
		return lost(isNew, err)
	}
	for i := range records {
		if err := t.times(ctx, objects, records[i].child, visit); err != nil {
			return err
		}
	}
	return nil
}

// enter reports whether to read the object of a directory, and whether visit received it only now.
func (t *Tracer) enter(name segno.Hash, visit func(segno.Hash) bool) (isNew, enter bool) {
	if name.IsZero() {
		return false, false
	}
	isNew = visit(name)
	wasFile, known := t.read[name]
	t.read[name] = false
	return isNew, isNew || !known || wasFile
}

func (t *Tracer) leaf(name segno.Hash, visit func(segno.Hash) bool) {
	if name.IsZero() || !visit(name) {
		return
	}
	if _, known := t.read[name]; known {
		t.read[name] = true
	}
}

// lost returns the error of a read. If visit had received the object before, it may have returned false because the
// object is missing or damaged. The caller of Trace then knows that.
func lost(isNew bool, err error) error {
	if !isNew && (errors.Is(err, segno.KindNotFound) || errors.Is(err, segno.KindCorrupt)) {
		return nil
	}
	return err
}
