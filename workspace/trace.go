package workspace

import (
	"context"

	"github.com/dalsegno/segno"
)

// Trace calls visit for each object the snapshot reaches, and descends into those
// for which it returns true.
func (d *Dir) Trace(ctx context.Context, s segno.Snapshot, visit func(segno.Hash) bool) error {
	return Trace(ctx, d.config.Objects, s, visit)
}

// Trace is [Dir.Trace] without a directory: a store that collects knows snapshots
// of trees that are gone.
func Trace(ctx context.Context, objects segno.Objects, s segno.Snapshot, visit func(segno.Hash) bool) error {
	if err := traceTree(ctx, objects, s.Tree, visit); err != nil {
		return err
	}
	return traceTimes(ctx, objects, s.Times, visit)
}

func traceTree(ctx context.Context, objects getter, name segno.Hash, visit func(segno.Hash) bool) error {
	if name.IsZero() || !visit(name) {
		return nil
	}
	records, err := loadTree(ctx, objects, name)
	if err != nil {
		return err
	}
	for i := range records {
		r := &records[i]
		if !r.Hash.IsZero() {
			visit(r.Hash)
		}
		if !r.Xattrs.IsZero() {
			visit(r.Xattrs)
		}
		if err := traceTree(ctx, objects, r.child, visit); err != nil {
			return err
		}
	}
	return nil
}

func traceTimes(ctx context.Context, objects getter, name segno.Hash, visit func(segno.Hash) bool) error {
	if name.IsZero() || !visit(name) {
		return nil
	}
	records, err := loadTimes(ctx, objects, name)
	if err != nil {
		return err
	}
	for i := range records {
		if err := traceTimes(ctx, objects, records[i].child, visit); err != nil {
			return err
		}
	}
	return nil
}
