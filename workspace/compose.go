package workspace

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Compose returns the snapshot that is onto, except that each of paths is what it is
// in base, or absent if base has no such path. A directory that base lacks is only
// left out together with everything in it, and what comes back from base needs its
// directories: paths must name those, too. New objects go into b.
func (d *Dir) Compose(ctx context.Context, b segno.Batch, onto, base segno.Snapshot, paths []string) (segno.Snapshot, error) {
	if d.recent == nil {
		d.recent = newRecent(d.config.Objects)
	}
	c := composition{objects: d.recent, sink: batchSink{b, d.recent}, paths: map[string]bool{}, leading: leading(paths)}
	for _, p := range paths {
		c.paths[p] = true
	}
	out := onto
	top, err := c.dir(ctx, "", branch{onto.Tree, onto.Times}, branch{base.Tree, base.Times})
	if err != nil {
		return segno.Snapshot{}, pathError("compose snapshot", d.root, err)
	}
	out.Tree, out.Times = top.tree, top.times
	out.Files += c.files
	out.Bytes += c.bytes
	out.Unread = slices.DeleteFunc(slices.Clone(onto.Unread), func(p string) bool { return c.paths[p] })
	return out, nil
}

// branch is one directory of a snapshot: its tree and its modification times.
type branch struct{ tree, times segno.Hash }

type composition struct {
	objects getter
	sink    batchSink
	paths   map[string]bool
	leading map[string]bool // paths, and the directories that lead to them
	files   int             // against what is composed onto
	bytes   int64
}

// entries returns what a directory holds, by name.
func (c *composition) entries(ctx context.Context, of branch) (map[string]record, map[string]timeRecord, error) {
	records, err := loadTree(ctx, c.objects, of.tree)
	if err != nil {
		return nil, nil, err
	}
	stamps, err := loadTimes(ctx, c.objects, of.times)
	if err != nil {
		return nil, nil, err
	}
	byName, times := make(map[string]record, len(records)), make(map[string]timeRecord, len(stamps))
	for _, r := range records {
		byName[r.name] = r
	}
	for _, t := range stamps {
		times[t.name] = t
	}
	return byName, times, nil
}

// dir composes one directory and all below it.
func (c *composition) dir(ctx context.Context, path string, onto, base branch) (branch, error) {
	if !c.leading[path] {
		return onto, nil
	}
	present, presentTimes, err := c.entries(ctx, onto)
	if err != nil {
		return branch{}, err
	}
	old, oldTimes, err := c.entries(ctx, base)
	if err != nil {
		return branch{}, err
	}
	names := slices.Collect(maps.Keys(present))
	for name := range old {
		if _, both := present[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var records []record
	times := appendTimes(nil)
	none := len(times)
	for _, name := range names {
		at := join(path, name)
		r, stamp := present[name], presentTimes[name]
		if c.paths[at] {
			c.count(r, -1)
			r, stamp = old[name], oldTimes[name]
			c.count(r, +1)
		}
		if r.Type != segno.EntityDir {
			if err := c.leave(ctx, present[name].child); err != nil {
				return branch{}, err
			}
		}
		switch r.Type {
		case segno.EntityNone:
			continue
		case segno.EntityDir:
			below, err := c.dir(ctx, at, branch{present[name].child, presentTimes[name].child}, branch{old[name].child, oldTimes[name].child})
			if err != nil {
				return branch{}, err
			}
			r.child, stamp = below.tree, timeRecord{name: name, child: below.times}
		}
		records = append(records, r)
		if r.Type == segno.EntityFile || !stamp.child.IsZero() {
			stamp.name = name
			times = appendTime(times, &stamp)
		}
	}
	tree := appendTree(nil, slices.ContainsFunc(records, func(r record) bool { return r.Owner.Known }))
	for i := range records {
		tree = appendRecord(tree, &records[i])
	}
	return c.put(ctx, tree, times, none)
}

// put stores the objects of a directory; none is the length of times without entries.
func (c *composition) put(ctx context.Context, tree, times []byte, none int) (out branch, err error) {
	if out.tree, err = c.sink.object(ctx, tree); err != nil || len(times) == none {
		return out, err
	}
	out.times, err = c.sink.object(ctx, times)
	return out, err
}

// leave counts the files of a directory that is not in the result.
func (c *composition) leave(ctx context.Context, tree segno.Hash) error {
	records, err := loadTree(ctx, c.objects, tree)
	if err != nil {
		return err
	}
	for _, r := range records {
		c.count(r, -1)
		if err := c.leave(ctx, r.child); err != nil {
			return err
		}
	}
	return nil
}

func (c *composition) count(r record, sign int) {
	if r.Type == segno.EntityFile {
		c.files += sign
		c.bytes += int64(sign) * r.Size
	}
}

// Touched returns when each path last changed in any way: its ctime, which no program
// can set. For a path that is not there it is the ctime of the nearest directory above
// that is, because removing a name changes its directory. It is zero for a path that
// cannot be looked at.
func (d *Dir) Touched(ctx context.Context, paths []string) ([]time.Time, error) {
	root, err := openRootDir(d.root)
	if err != nil {
		return nil, pathError("look at files", d.root, err)
	}
	defer root.close()
	out := make([]time.Time, len(paths))
	for i, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if st, ok := nearest(root, p); ok {
			out[i] = time.Unix(0, st.ctime)
		}
	}
	return out, nil
}

// nearest returns the stat of a path, or of the nearest directory above it.
func nearest(root *rootDir, path string) (stat, bool) {
	for {
		dir, name := "", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			dir, name = path[:i], path[i+1:]
		}
		st, err := statIn(root, dir, name)
		if err == nil {
			return st, true
		}
		if !isGone(err) && !isReplaced(err) || path == "" {
			return stat{}, false
		}
		path = dir
	}
}

// statIn returns the stat of a name in a directory, or of the root if name is empty.
func statIn(root *rootDir, dir, name string) (stat, error) {
	d, err := root.open(dir)
	if err != nil {
		return stat{}, err
	}
	defer d.close()
	if name == "" {
		return d.self()
	}
	return d.stat(name)
}
