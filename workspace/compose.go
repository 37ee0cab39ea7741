package workspace

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Compose returns the snapshot onto, except that each of the paths is as in base, or absent if
// base does not have it. If base lacks a directory, paths must include everything in it. If a
// path comes from base, paths must include the directories that it needs. New objects go into
// b.
func (d *Dir) Compose(ctx context.Context, b segno.Batch, onto, base segno.Snapshot, paths []string) (segno.Snapshot, error) {
	c := composition{objects: d.cache, out: objectWriter{b, d.cache}, paths: map[string]bool{}, leading: leading(paths)}
	for _, p := range paths {
		c.paths[p] = true
	}
	out := onto
	top, err := c.dir(ctx, "", branch{onto.Tree, onto.Times}, branch{base.Tree, base.Times})
	if err != nil {
		return segno.Snapshot{}, pathError("compose snapshot", d.root, err)
	}
	out.Tree, out.Times = top.tree, top.times
	out.Unread = slices.DeleteFunc(slices.Clone(onto.Unread), func(p string) bool { return c.paths[p] })
	return out, d.recount(ctx, &out, onto.Tree)
}

// recount updates the counts of s, which are those of the tree was, to those of the tree of s.
func (d *Dir) recount(ctx context.Context, s *segno.Snapshot, was segno.Hash) error {
	add := func(sign int) func(record) bool {
		return func(r record) bool {
			if r.Type == segno.EntityFile {
				s.Files += sign
				s.Bytes += int64(sign) * r.Size
			}
			return true
		}
	}
	return compare(ctx, d.cache, "", was, s.Tree, func(_ string, from, to record) error {
		if from.Type == segno.EntityProtected || to.Type == segno.EntityProtected { // compare does not descend here
			return errors.Join(walk(ctx, d.cache, from, add(-1)), walk(ctx, d.cache, to, add(+1)))
		}
		add(-1)(from)
		add(+1)(to)
		return nil
	})
}

// branch is one directory of a snapshot: its tree and its modification times.
type branch struct{ tree, times segno.Hash }

type composition struct {
	objects getter
	out     objectWriter
	paths   map[string]bool
	leading map[string]bool // the paths, and the directories above them
}

// stamped is an entry of a directory and its modification time.
type stamped struct {
	record
	time timeRecord
}

// branch returns the directory that the entry describes. It is zero for other entries.
func (s stamped) branch() branch { return branch{s.child, s.time.child} }

// entries returns the entries of a directory, by name.
func (c *composition) entries(ctx context.Context, of branch) (map[string]stamped, error) {
	records, err := loadTree(ctx, c.objects, of.tree)
	if err != nil {
		return nil, err
	}
	times, err := loadTimes(ctx, c.objects, of.times)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]stamped, len(records))
	for _, r := range records {
		byName[r.name] = stamped{record: r}
	}
	for _, t := range times {
		byName[t.name] = stamped{byName[t.name].record, t}
	}
	return byName, nil
}

// dir composes one directory and everything below it.
func (c *composition) dir(ctx context.Context, path string, onto, base branch) (out branch, err error) {
	if !c.leading[path] {
		return onto, nil
	}
	present, err := c.entries(ctx, onto)
	if err != nil {
		return branch{}, err
	}
	old, err := c.entries(ctx, base)
	if err != nil {
		return branch{}, err
	}
	both := maps.Clone(present)
	maps.Copy(both, old)
	var records []record
	var times []timeRecord
	for _, name := range slices.Sorted(maps.Keys(both)) {
		at := join(path, name)
		r := present[name]
		if c.paths[at] {
			r = old[name]
		}
		switch r.Type {
		case segno.EntityNone:
			continue
		case segno.EntityDir:
			below, err := c.dir(ctx, at, present[name].branch(), old[name].branch())
			if err != nil {
				return branch{}, err
			}
			r.child, r.time = below.tree, timeRecord{child: below.times}
		}
		records = append(records, r.record)
		if r.Type == segno.EntityFile || !r.time.child.IsZero() {
			r.time.name = name
			times = append(times, r.time)
		}
	}
	out.tree, out.times, err = putDir(ctx, c.out, func() ([]byte, []byte) { return encodeTree(records), encodeTimes(times) })
	return out, err
}

// Touched returns when each path last changed in any way: its ctime, which no program can set.
// For a path that does not exist, it returns the ctime of the nearest existing directory above
// it, because removing a name changes its directory. The time is zero if this process may not
// stat the path.
func (d *Dir) Touched(ctx context.Context, paths []string) ([]time.Time, error) {
	root, err := openRoot(d.root)
	if err != nil {
		return nil, pathError("stat files", d.root, err)
	}
	defer root.close()
	out := make([]time.Time, len(paths))
	for i, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st, err := root.lstat(p)
		for isAbsent(err) && p != "" {
			p = dirOf(p)
			st, err = root.lstat(p)
		}
		if err == nil {
			out[i] = time.Unix(0, st.ctime)
		}
	}
	return out, nil
}
