package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Diff returns the changes that turn tree a into tree b. It reads only directories that differ. It
// does not compare below a directory that is protected on one side, because that side does not
// record the directory's entries.
func (d *Dir) Diff(ctx context.Context, a, b segno.Hash) ([]segno.Change, error) {
	return changes(ctx, d.cache, a, b)
}

// Diff is [Dir.Diff] without a directory: it only needs the objects of the trees.
func Diff(ctx context.Context, objects segno.Objects, a, b segno.Hash) ([]segno.Change, error) {
	return changes(ctx, objects, a, b)
}

// changes is Diff for any source of objects.
func changes(ctx context.Context, objects getter, a, b segno.Hash) (out []segno.Change, err error) {
	err = compare(ctx, objects, "", a, b, func(path string, from, to record) error {
		out = append(out, segno.Change{Path: path, From: from.Entity, To: to.Entity})
		return nil
	})
	slices.SortFunc(out, func(a, b segno.Change) int { return strings.Compare(a.Path, b.Path) })
	return out, err
}

// Lost returns how many files tree a saved that tree b only records as protected. It does not count
// files that could not be read, because a snapshot lists them.
func (d *Dir) Lost(ctx context.Context, a, b segno.Hash) (files int, err error) {
	err = compare(ctx, d.cache, "", a, b, func(_ string, from, to record) error {
		if to.Type != segno.EntityProtected || to.Why == whyUnreadable || to.Why == whyChanging {
			return nil
		}
		return walk(ctx, d.cache, from, func(r record) bool {
			if r.Type != segno.EntityDir && r.Type != segno.EntityProtected && r.Type != segno.EntityNone {
				files++
			}
			return true
		})
	})
	return files, err
}

// compare calls visit for each path at which two trees differ. It visits a directory before the
// directory's entries.
func compare(ctx context.Context, objects getter, path string, a, b segno.Hash, visit func(path string, from, to record) error) error {
	if a == b {
		return nil
	}
	before, err := loadTree(ctx, objects, a)
	if err != nil {
		return err
	}
	after, err := loadTree(ctx, objects, b)
	if err != nil {
		return err
	}
	for len(before) > 0 || len(after) > 0 {
		from, to := nextPair(&before, &after)
		at := join(path, max(from.name, to.name)) // equal, or one is empty
		if differ(from.Entity, to.Entity) {
			if err := visit(at, from, to); err != nil {
				return err
			}
		}
		if to.Type == segno.EntityProtected || from.Type == segno.EntityProtected {
			continue // one side does not record the entries
		}
		if err := compare(ctx, objects, at, from.child, to.child, visit); err != nil {
			return err
		}
	}
	return nil
}

// nextPair removes the records with the smallest name from two sorted lists. For a list without
// that name, it returns the zero record.
func nextPair(before, after *[]record) (from, to record) {
	a, b := *before, *after
	if len(b) == 0 || len(a) > 0 && a[0].name <= b[0].name {
		from, *before = a[0], a[1:]
	}
	if len(a) == 0 || len(b) > 0 && b[0].name <= a[0].name {
		to, *after = b[0], b[1:]
	}
	return from, to
}

// differ compares the entities of two trees at one path. If one of them did not record the owner,
// it ignores the owner.
func differ(from, to segno.Entity) bool {
	if !from.Owner.Known || !to.Owner.Known {
		from.Owner, to.Owner = segno.Owner{}, segno.Owner{}
	}
	return from != to
}

// walk calls visit for an entry and, if it returns true for a directory, for all entries
// below it.
func walk(ctx context.Context, objects getter, r record, visit func(record) bool) error {
	if !visit(r) || r.child.IsZero() {
		return nil
	}
	records, err := loadTree(ctx, objects, r.child)
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := walk(ctx, objects, r, visit); err != nil {
			return err
		}
	}
	return nil
}
