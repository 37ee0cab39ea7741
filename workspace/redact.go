package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// A Redactor copies snapshots without some of their paths, for a place that must not have these. It leaves
// out protected paths, because that place does not have them either, and setuid, setgid and sticky. A
// snapshot that contains none of these stays the same. One Redactor may copy many snapshots; it reads a
// directory that they share only once.
type Redactor struct {
	Objects segno.Objects
	// Drop reports whether to leave out an entry and everything below it. The result must depend only on the
	// arguments. siblings returns the names in the directory of the entry. A hard link is also left out if
	// the first name of its file is; for that call, siblings is nil.
	Drop func(path string, e segno.Entity, siblings func() []string) bool
	// Dropped, if not nil, is called with each entry that is left out, including protected ones, but not with
	// the entries below it. It may be called more than once for an entry.
	Dropped func(path string, e segno.Entity)
	// Visit is called with each object of a copy that a snapshot also has, and its size or -1. Put is called
	// with the bytes of each object that no snapshot has. Both may be called more than once for an object.
	Visit func(name segno.Hash, size int64)
	Put   func(data []byte)
	// MaxEntries and MaxDirs, if not 0, limit the total numbers of entries and directories that are read,
	// because a few objects can form a tree with any number of paths. If a limit is exceeded, the error has
	// KindRefused.
	MaxEntries, MaxDirs int

	entries, dirs int
	trees         map[redactKey]redacted
	times         map[redactKey]segno.Hash
}

type redactKey struct {
	tree, times segno.Hash
	dir         string
}

// redacted is a directory of a copy.
type redacted struct {
	tree  segno.Hash
	files int
	bytes int64
}

// Snapshot returns the copy of a snapshot, without attached databases. The error has [segno.KindCorrupt] if
// the object of a directory does not have the form that the package comment describes. If an object is
// missing, the error is that of Objects.
func (x *Redactor) Snapshot(ctx context.Context, s segno.Snapshot) (segno.Snapshot, error) {
	if x.trees == nil {
		x.trees, x.times = map[redactKey]redacted{}, map[redactKey]segno.Hash{}
	}
	top, err := x.tree(ctx, s.Tree, "")
	if err != nil {
		return s, err
	}
	times, err := x.stamps(ctx, s.Tree, s.Times, "")
	s.Tree, s.Times, s.Files, s.Bytes, s.World = top.tree, times, top.files, top.bytes, nil
	return s, err
}

// kept returns the entries of a directory that the copy contains.
func (x *Redactor) kept(ctx context.Context, tree segno.Hash, dir string) ([]record, error) {
	if len(dir) > maxRedactPath {
		return nil, segno.Errorf(segno.KindCorrupt, "read tree", tree.String(), "the path of the directory is longer than %d bytes", maxRedactPath)
	}
	all, err := loadTree(ctx, x.Objects, tree)
	if err != nil {
		return nil, err
	}
	x.entries += len(all)
	x.dirs++
	if x.MaxEntries > 0 && x.entries > x.MaxEntries || x.MaxDirs > 0 && x.dirs > x.MaxDirs {
		return nil, segno.Errorf(segno.KindRefused, "read tree", tree.String(), "the snapshots have too many entries or directories")
	}
	var names []string
	siblings := func() []string {
		if names == nil {
			for _, r := range all {
				names = append(names, r.name)
			}
		}
		return names
	}
	records := slices.DeleteFunc(slices.Clone(all), func(r record) bool {
		at := join(dir, r.name)
		drop := r.Type == segno.EntityProtected || x.Drop(at, r.Entity, siblings) || r.Type == segno.EntityHardLink && x.Drop(r.Target, r.Entity, nil)
		if drop && x.Dropped != nil {
			x.Dropped(at, r.Entity)
		}
		return drop
	})
	for i := range records {
		records[i].Mode &^= setIDs | sticky
		records[i].Owner = segno.Owner{}
	}
	return records, nil
}

// maxRedactPath is the largest length of a path in a snapshot. It thus also limits the depth of directories.
// It equals the limit of a scan's budget.
const maxRedactPath = 32 << 10

// sticky is the sticky bit of chmod(2).
const sticky = 0o1000

func (x *Redactor) tree(ctx context.Context, tree segno.Hash, dir string) (redacted, error) {
	key := redactKey{tree: tree, dir: dir}
	if done, ok := x.trees[key]; ok {
		return done, nil
	}
	if err := ctx.Err(); err != nil {
		return redacted{}, err
	}
	records, err := x.kept(ctx, tree, dir)
	if err != nil {
		return redacted{}, err
	}
	var out redacted
	for i := range records {
		r := &records[i]
		if !r.Xattrs.IsZero() {
			if _, err := load(ctx, x.Objects, "xattrs", r.Xattrs, decodeXattrs); err != nil {
				return out, err
			}
			x.Visit(r.Xattrs, -1)
		}
		switch {
		case r.Type == segno.EntityDir:
			below, err := x.tree(ctx, r.child, join(dir, r.name))
			if err != nil {
				return out, err
			}
			r.child = below.tree
			out.files += below.files
			out.bytes += below.bytes
		case r.HasContent():
			x.Visit(r.Hash, r.Size)
		}
		if r.Type == segno.EntityFile { // do not count the other names of a file
			out.files++
			out.bytes += r.Size
		}
	}
	out.tree = x.copied(encodeTree(records), tree)
	x.trees[key] = out
	return out, nil
}

// copied returns the name of the object in the copy that replaces the object from.
func (x *Redactor) copied(data []byte, from segno.Hash) segno.Hash {
	name := segno.HashOf(data)
	if name == from {
		x.Visit(name, int64(len(data)))
	} else {
		x.Put(data)
	}
	return name
}

// stamps copies the modification times of a directory.
func (x *Redactor) stamps(ctx context.Context, tree, times segno.Hash, dir string) (segno.Hash, error) {
	key := redactKey{tree, times, dir}
	if done, ok := x.times[key]; ok || times.IsZero() {
		return done, nil
	}
	records, err := x.kept(ctx, tree, dir)
	if err != nil {
		return segno.Hash{}, err
	}
	stamps, err := loadTimes(ctx, x.Objects, times)
	if err != nil {
		return segno.Hash{}, err
	}
	var out []timeRecord
	for _, t := range stamps {
		i, ok := slices.BinarySearchFunc(records, t.name, func(r record, name string) int { return strings.Compare(r.name, name) })
		switch {
		case !ok:
			continue
		case t.child.IsZero() != (records[i].Type == segno.EntityFile), !t.child.IsZero() && records[i].Type != segno.EntityDir:
			return segno.Hash{}, segno.NewError(segno.KindCorrupt, "read times", times.String(), fmt.Errorf("%q is of another type in the tree", t.name))
		case !t.child.IsZero():
			if t.child, err = x.stamps(ctx, records[i].child, t.child, join(dir, t.name)); err != nil {
				return segno.Hash{}, err
			}
			if t.child.IsZero() {
				continue
			}
		}
		out = append(out, t)
	}
	var name segno.Hash
	if data := encodeTimes(out); data != nil {
		name = x.copied(data, times)
	}
	x.times[key] = name
	return name, nil
}
