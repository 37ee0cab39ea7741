package workspace

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// List calls visit for each entry of a snapshot in depth-first order: a directory before its
// entries, and entries sorted by the bytes of their names. modified is the time of a file, and
// zero for all other entries. List returns the first error of visit. It needs no directory.
func List(ctx context.Context, objects segno.Objects, s segno.Snapshot, visit func(path string, e segno.Entity, modified time.Time) error) error {
	return list(ctx, objects, "", s.Tree, s.Times, visit)
}

func list(ctx context.Context, objects getter, dir string, tree, times segno.Hash, visit func(string, segno.Entity, time.Time) error) error {
	records, err := loadTree(ctx, objects, tree)
	if err != nil {
		return err
	}
	stamps, err := loadTimes(ctx, objects, times)
	if err != nil {
		return err
	}
	for _, r := range records {
		var modified time.Time
		var below segno.Hash
		i, ok := slices.BinarySearchFunc(stamps, r.name, func(t timeRecord, name string) int { return strings.Compare(t.name, name) })
		switch {
		case ok && r.Type == segno.EntityFile:
			modified = time.Unix(0, stamps[i].mtime)
		case ok && r.Type == segno.EntityDir:
			below = stamps[i].child
		}
		at := join(dir, r.name)
		if err := visit(at, r.Entity, modified); err != nil {
			return err
		}
		if r.Type != segno.EntityDir {
			continue
		}
		if err := list(ctx, objects, at, r.child, below, visit); err != nil {
			return err
		}
	}
	return nil
}
