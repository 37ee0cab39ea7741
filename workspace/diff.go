package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Diff returns what turns tree a into tree b. It reads only directories that
// differ. What lies below a directory that is protected on one side is not told
// apart: nothing is known of it there.
func (d *Dir) Diff(ctx context.Context, a, b segno.Hash) ([]segno.Change, error) {
	return changes(ctx, d.recent, a, b)
}

// changes is Diff with objects from elsewhere.
func changes(ctx context.Context, objects getter, a, b segno.Hash) ([]segno.Change, error) {
	c := comparison{objects: objects}
	if err := c.dirs(ctx, "", a, b); err != nil {
		return nil, err
	}
	slices.SortFunc(c.changes, func(a, b segno.Change) int { return strings.Compare(a.Path, b.Path) })
	return c.changes, nil
}

// getter is the part of [segno.Objects] that reads.
type getter interface {
	Get(ctx context.Context, name segno.Hash) ([]byte, error)
}

type comparison struct {
	objects getter
	changes []segno.Change
}

func (c *comparison) dirs(ctx context.Context, path string, a, b segno.Hash) error {
	if a == b {
		return nil
	}
	before, err := loadTree(ctx, c.objects, a)
	if err != nil {
		return err
	}
	after, err := loadTree(ctx, c.objects, b)
	if err != nil {
		return err
	}
	for len(before) > 0 || len(after) > 0 {
		var from, to record
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].name < after[0].name:
			from, before = before[0], before[1:]
		case len(before) == 0 || after[0].name < before[0].name:
			to, after = after[0], after[1:]
		default:
			from, before, to, after = before[0], before[1:], after[0], after[1:]
		}
		if !differ(from.Entity, to.Entity) {
			to.Owner = from.Owner
		}
		name := from.name
		if name == "" {
			name = to.name
		}
		if err := c.entry(ctx, join(path, name), from, to); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) entry(ctx context.Context, path string, from, to record) error {
	if from.Entity != to.Entity && !sameGitFile(path, from.Entity, to.Entity) {
		c.changes = append(c.changes, segno.Change{Path: path, From: from.Entity, To: to.Entity})
	}
	if to.Type == segno.EntityProtected || from.Type == segno.EntityProtected {
		return nil // what it held is there on both sides, only not looked at on one
	}
	return c.dirs(ctx, path, from.child, to.child)
}

// differ compares what two trees have at one path. An owner that one of them did
// not record makes no difference.
func differ(from, to segno.Entity) bool {
	if !from.Owner.Known || !to.Owner.Known {
		from.Owner, to.Owner = segno.Owner{}, segno.Owner{}
	}
	return from != to
}

// loadTree reads a tree object; the zero hash is the empty tree.
func loadTree(ctx context.Context, objects getter, name segno.Hash) ([]record, error) {
	if name.IsZero() {
		return nil, nil
	}
	data, err := objects.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read tree: %w", err)
	}
	records, err := decodeTree(data)
	if err != nil {
		return nil, damaged("read tree", name, err)
	}
	return records, nil
}

// loadTimes reads a times object; the zero hash has no entries.
func loadTimes(ctx context.Context, objects getter, name segno.Hash) ([]timeRecord, error) {
	if name.IsZero() {
		return nil, nil
	}
	data, err := objects.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read times: %w", err)
	}
	records, err := decodeTimes(data)
	if err != nil {
		return nil, damaged("read times", name, err)
	}
	return records, nil
}

// damaged is the error about an object that exists and does not decode.
func damaged(op string, name segno.Hash, err error) error {
	kind := segno.KindCorrupt
	if segno.KindOf(err) == segno.KindNewer {
		kind = segno.KindNewer
	}
	return segno.NewError(kind, op, name.String(), err)
}
