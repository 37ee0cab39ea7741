package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Snapshot saves the tree as it is now. An unreadable path or one that keeps
// changing is in the result's Unread, and so are the first 100 paths beyond the
// budget; any other failure is an error, and Snapshot then returns no snapshot. Diff knows the
// result from then on, before anything is committed.
func (d *Dir) Snapshot(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
	return d.snapshot(ctx, b, nil)
}

// SnapshotAt is Snapshot right after another one of the same Dir, if since then
// only paths changed: it looks at the directories that lead to them and at no
// others. What changed elsewhere is for the next Snapshot to see. It is a whole
// Snapshot where nothing is known of the other directories.
func (d *Dir) SnapshotAt(ctx context.Context, b segno.Batch, paths []string) (segno.Snapshot, error) {
	return d.snapshot(ctx, b, leading(paths))
}

// leading returns the directories that lead to paths, and the paths, which may be
// directories themselves.
func leading(paths []string) map[string]bool {
	only := map[string]bool{"": true}
	for _, p := range paths {
		for !only[p] {
			only[p] = true
			p = p[:max(0, strings.LastIndexByte(p, '/'))]
		}
	}
	return only
}

func (d *Dir) snapshot(ctx context.Context, b segno.Batch, only map[string]bool) (segno.Snapshot, error) {
	d.recent = newRecent(d.config.Objects)
	v, err := d.look(ctx, batchSink{b, d.recent}, b, only)
	if err != nil {
		return segno.Snapshot{}, err
	}
	defer v.close()
	if err := v.sweep(); err != nil {
		return segno.Snapshot{}, err
	}
	if err := v.save(); err != nil {
		return segno.Snapshot{}, err
	}
	return segno.Snapshot{
		Workspace: d.config.ID, Root: d.root, Git: readGit(d.root),
		Tree: v.top.tree, Times: v.top.times, Files: v.files, Bytes: v.bytes, Unread: v.unread,
		Held: topmost(v.held),
	}, nil
}

// view is the tree as a scan saw it.
type view struct {
	dir    *Dir
	root   *rootDir
	scan   *scan
	index  *index // what it was made from, or nil
	self   stat   // of the root
	top    *node
	files  int
	bytes  int64
	unread []string
	held   []string // saved although a rule protects them
	beyond []string // what the budget left out
}

func (v *view) close() { v.root.close() }

// has is the part of a batch that tells which objects there are.
type has interface {
	Has(ctx context.Context, name segno.Hash) (bool, error)
}

// look scans the tree and hands what is new to out. known tells which objects of
// an earlier snapshot still exist. only, if not nil, names the directories that can
// have changed since the newest snapshot.
func (d *Dir) look(ctx context.Context, out sink, known has, only map[string]bool) (_ *view, err error) {
	root, err := openRootDir(d.root)
	if err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	v := &view{dir: d, root: root}
	defer func() {
		if err != nil {
			root.close()
		}
	}()
	if err := v.start(ctx, out, known, only); err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	if err := v.scan.walk(ctx, v.top); err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	if err := v.sortLarge(ctx); err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	if err := v.readLate(ctx); err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	if err := v.scan.rules.cover.failure(); err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	v.settle(v.top)
	if v.bytes > d.budget.bytes {
		v.fit()
		v.files, v.bytes, v.unread, v.held, v.beyond = 0, 0, nil, nil, nil
		v.settle(v.top)
	}
	v.link()
	v.nameBeyond()
	slices.Sort(v.unread)
	if err := v.build(ctx, v.top); err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	return v, nil
}

// start prepares a scan that begins where the last one ended.
func (v *view) start(ctx context.Context, out sink, known has, only map[string]bool) (err error) {
	top := v.root.dir()
	if v.self, err = top.self(); err != nil {
		return err
	}
	rules, err := v.dir.rules(ctx, top)
	if err != nil {
		return err
	}
	v.scan = &scan{root: v.root, rules: rules, sink: out, progress: v.dir.config.Progress, clock: newClock(v.root, v.self)}
	uncovered := *rules
	uncovered.cover = nil
	v.scan.uncovered = &uncovered
	v.index = v.dir.load(v.self)
	mine := v.dir.kept != nil && v.index == v.dir.kept.index
	v.dir.kept = nil // the scan changes it in place
	v.scan.budget, v.scan.fill = v.dir.budget, v.dir.fill
	if v.index != nil {
		if err := trust(ctx, known, v.index.top); err != nil {
			return err
		}
	}
	if v.index == nil {
		v.top = &node{fresh: true}
		v.scan.touch(v.top)
		return nil
	}
	v.top = v.index.top
	if v.index.rules != rules.hash {
		v.scan.reclassify = true
		v.scan.changed.Store(true)
	} else if mine && !v.top.dirty.Load() {
		v.scan.only = only
	}
	v.scan.known = !v.scan.reclassify && rules.cover.is(v.top.tree)
	return nil
}

// rules reads the root's .segnoignore. If it is there and cannot be read, the one
// that was saved last counts, so that a symlink in its place does not end recording;
// without a saved one that is an error, because paths would be saved that the user
// wanted left alone.
func (d *Dir) rules(ctx context.Context, top *openDir) (*rules, error) {
	held := newCover(ctx, d.recent, d.coverage)
	text, err := top.readAll(ignoreName, 1<<20)
	if err != nil && !isGone(err) {
		var saved bool
		if text, saved = held.ignoreText(); !saved {
			return nil, segno.NewError(segno.KindIO, "read "+ignoreName, "", err).WithHint("make " + ignoreName + " a readable file, no symlink")
		}
	}
	if held != nil {
		held.compare(text)
	}
	return newRules(text, d.excluded(), held), held.failure()
}

// trust checks the index against the store, which may have lost, or never got,
// what the last snapshot put. An object implies all below it; where one is
// missing, what is under it is checked one by one and read again if need be.
func trust(ctx context.Context, known has, n *node) error {
	if found, err := hasAll(ctx, known, n.tree, n.times); err != nil || found {
		return err
	}
	n.dirty.Store(true)
	for i := range n.entries {
		e := &n.entries[i]
		names := []segno.Hash{e.hash}
		if e.xattrs != nil {
			names = append(names, *e.xattrs)
		}
		if e.kind == kindDir {
			names = []segno.Hash{e.child.xattrs}
			if err := trust(ctx, known, e.child); err != nil {
				return err
			}
		}
		found, err := hasAll(ctx, known, names...)
		if err != nil {
			return err
		}
		if !found && e.kind == kindDir {
			e.child.fresh = true
		} else if !found {
			e.st.ctime = 0 // as no file has it
		}
	}
	return nil
}

// hasAll reports whether all objects exist; the zero hash names none.
func hasAll(ctx context.Context, known has, names ...segno.Hash) (bool, error) {
	for _, name := range names {
		if name.IsZero() {
			continue
		}
		if ok, err := known.Has(ctx, name); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// sortLarge protects the large files that git ignores and postpones the others.
func (v *view) sortLarge(ctx context.Context) error {
	if len(v.scan.large) == 0 {
		return nil
	}
	ignored, err := v.gitIgnored(ctx)
	if err != nil {
		return err
	}
	for _, t := range v.scan.large {
		var files []int32
		for _, i := range t.files {
			e := &t.n.entries[i]
			if ignored[join(t.n.path, e.name)] {
				if e.held = v.scan.rules.cover.holds(t.n.path, e.name, false, whyLargeIgnore); !e.held {
					e.protect(whyLargeIgnore)
					continue
				}
			}
			files = append(files, i)
		}
		v.scan.touch(t.n)
		v.scan.postpone(t.n, files)
	}
	return nil
}

// sweep removes what an Apply that was broken off left behind.
func (v *view) sweep() error {
	if len(v.scan.strays) == 0 {
		return nil
	}
	hands, err := v.dir.open()
	if err != nil {
		return err
	}
	defer hands.close()
	for _, path := range v.scan.strays {
		if err := hands.discard(path); err != nil {
			return pathError("remove temporary file", path, err)
		}
	}
	return nil
}

// save writes the index, if it has anything new to say.
func (v *view) save() error {
	file := v.dir.config.Index
	if file == "" {
		return nil
	}
	x := v.index
	if x == nil || v.scan.changed.Load() {
		x = &index{root: v.self, rules: v.scan.rules.hash, top: v.top, entries: v.top.count()}
		if err := saveIndex(v.dir.config.FS, file, x); err != nil {
			return err
		}
	}
	v.dir.keep(x)
	return nil
}
