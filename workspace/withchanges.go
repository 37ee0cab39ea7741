package workspace

import (
	"context"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// WithChanges returns the snapshot onto with each change applied: the path gets the change's To. A
// directory that a change removes stays if the result has entries in it. A change below an entry
// that is not a directory has no effect. Everything that a change does not contain comes from base:
// the modification times, and the contents of a directory that onto only records as protected. New
// objects go into b.
func (d *Dir) WithChanges(ctx context.Context, b segno.Batch, onto, base segno.Snapshot, changes []segno.Change) (segno.Snapshot, error) {
	w := rewriting{composition{objects: d.cache, out: objectWriter{b, d.cache}}, map[string]segno.Entity{}, map[string]map[string]bool{}}
	for _, c := range changes {
		w.to[c.Path] = c.To
		for p := c.Path; p != ""; p = dirOf(p) {
			if w.names[dirOf(p)] == nil {
				w.names[dirOf(p)] = map[string]bool{}
			}
			w.names[dirOf(p)][p] = true
		}
	}
	out := onto
	top, _, err := w.dir(ctx, "", branch{onto.Tree, onto.Times}, branch{base.Tree, base.Times})
	if err != nil {
		return segno.Snapshot{}, pathError("compose snapshot", d.root, err)
	}
	out.Tree, out.Times = top.tree, top.times
	return out, d.recount(ctx, &out, onto.Tree)
}

// rewriting is a WithChanges in progress.
type rewriting struct {
	composition
	to    map[string]segno.Entity
	names map[string]map[string]bool // by directory, the paths in it that change or that contain a change
}

// dir rewrites one directory and everything below it. n is the number of entries that the directory
// then has.
func (w *rewriting) dir(ctx context.Context, path string, onto, base branch) (out branch, n int, err error) {
	present, err := w.entries(ctx, onto)
	if err != nil {
		return branch{}, 0, err
	}
	if len(w.names[path]) == 0 {
		return onto, len(present), nil
	}
	old, err := w.entries(ctx, base)
	if err != nil {
		return branch{}, 0, err
	}
	for at := range w.names[path] {
		name := at[len(path):]
		if path != "" {
			name = name[1:]
		}
		e, keep, err := w.entry(ctx, at, present[name], old[name])
		if err != nil {
			return branch{}, 0, err
		}
		if delete(present, name); keep {
			e.name, e.time.name = name, name
			present[name] = e
		}
	}
	var records []record
	var times []timeRecord
	for _, name := range slices.Sorted(maps.Keys(present)) {
		e := present[name]
		records = append(records, e.record)
		if e.Type == segno.EntityFile && e.time.mtime != 0 || !e.time.child.IsZero() {
			e.time.name = name
			times = append(times, e.time)
		}
	}
	out.tree, out.times, err = putDir(ctx, w.out, func() ([]byte, []byte) { return encodeTree(records), encodeTimes(times) })
	return out, len(records), err
}

// entry returns the new entry at a path that changes or that contains a change, and whether the path
// exists.
func (w *rewriting) entry(ctx context.Context, at string, present, old stamped) (e stamped, exists bool, err error) {
	to, changes := w.to[at]
	e = present
	if changes && to.Type != segno.EntityNone {
		e = stamped{record{Entity: to}, timeRecord{mtime: old.time.mtime}}
	}
	if e.Type != segno.EntityDir {
		return e, e.Type != segno.EntityNone && !(changes && to.Type == segno.EntityNone), nil
	}
	var inside branch
	switch {
	case present.Type == segno.EntityDir:
		inside = present.branch()
	case present.Type == segno.EntityProtected && old.Type == segno.EntityDir:
		inside = old.branch()
	}
	below, n, err := w.dir(ctx, at, inside, old.branch())
	if inside == (branch{}) && err == nil && n == 0 { // a new directory without changes in it
		below.tree, below.times, err = putDir(ctx, w.out, func() ([]byte, []byte) { return encodeTree(nil), nil })
	}
	e.child, e.time = below.tree, timeRecord{child: below.times}
	return e, n > 0 || to.Type == segno.EntityDir || !changes, err
}
