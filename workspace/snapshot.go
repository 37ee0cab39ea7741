package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Snapshot saves the current tree. Unread lists the paths that cannot be read or keep changing,
// and the first 100 paths that exceed the budget. Any other failure is an error, and Snapshot
// then returns no snapshot. Diff accepts the result from then on, even before a commit.
func (d *Dir) Snapshot(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
	return d.snapshot(ctx, b, nil, false)
}

// SnapshotWatched is Snapshot, except that it does not read directories that did not change according to the watcher of
// [Options.Watch]. It misses changes that cause no event; the next Snapshot finds them. It reads every directory if there
// is no watcher, or if the watcher may have missed something.
func (d *Dir) SnapshotWatched(ctx context.Context, b segno.Batch) (segno.Snapshot, error) {
	return d.snapshot(ctx, b, nil, true)
}

// SnapshotAt is Snapshot right after another one of the same Dir, if only paths changed since
// then: it scans only the directories that contain them. The next Snapshot finds changes
// elsewhere. SnapshotAt scans everything if it has no index of the other directories.
func (d *Dir) SnapshotAt(ctx context.Context, b segno.Batch, paths []string) (segno.Snapshot, error) {
	return d.snapshot(ctx, b, leading(paths), false)
}

// leading returns paths, which may themselves be directories, and all directories above them.
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

func (d *Dir) snapshot(ctx context.Context, b segno.Batch, only map[string]bool, narrow bool) (segno.Snapshot, error) {
	d.cache = newObjectCache(d.options.Objects)
	v, err := d.scanTree(ctx, objectWriter{b, d.cache}, only, narrow)
	if err != nil {
		return segno.Snapshot{}, err
	}
	defer v.close()
	if err := v.removeStrays(); err != nil {
		return segno.Snapshot{}, err
	}
	if err := v.saveIndex(); err != nil {
		return segno.Snapshot{}, err
	}
	s := v.saved
	s.Workspace, s.Root, s.Git, s.Tree, s.Times = d.options.ID, d.root, readGit(d.root), v.top.tree, v.top.times
	s.Held = topmost(s.Held)
	return s, nil
}

// view is the result of a scan.
type view struct {
	dir        *Dir
	root       *dirHandle
	scan       *scan
	index      *index // the index from which the scan started, or nil
	unsaved    reads  // what earlier scans read since the index file was written
	self       stat   // the stat of the root
	top        *node
	saved      segno.Snapshot // the counts, and the lists of paths
	overBudget []string
	whole      bool // summarize and writeObjects visit all directories
}

func (v *view) close() {
	v.root.close()
	if v.scan != nil && v.scan.watch != nil {
		v.scan.watch.close()
	}
}

// scanTree scans the tree and writes new objects to out. only, if not nil, contains the
// directories that can have changed since the newest snapshot. narrow leaves out directories without events.
func (d *Dir) scanTree(ctx context.Context, out objectWriter, only map[string]bool, narrow bool) (_ *view, err error) {
	root, err := openRoot(d.root)
	if err != nil {
		return nil, pathError("snapshot", d.root, err)
	}
	v := &view{dir: d, root: root}
	defer func() {
		if err != nil {
			v.close()
			err = pathError("snapshot", d.root, err)
		}
	}()
	if err := v.start(ctx, out, only, narrow); err != nil {
		return nil, err
	}
	if err := v.scan.run(ctx, task{n: v.top}); err != nil {
		return nil, err
	}
	if err := v.scanOtherNames(ctx); err != nil {
		return nil, err
	}
	if err := v.protectIgnored(ctx); err != nil {
		return nil, err
	}
	if err := v.readDeferred(ctx); err != nil {
		return nil, err
	}
	if err := v.scan.rules.cover.failure(); err != nil {
		return nil, err
	}
	v.summarize(v.top)
	if v.top.sum.bytes > d.budget.bytes {
		v.protectLargest()
		v.whole = true
		v.summarize(v.top)
	}
	sum := &v.top.sum
	v.saved.Files, v.saved.Bytes, v.saved.Held, v.saved.Unread = sum.files, sum.bytes, slices.Clone(sum.held), slices.Clone(sum.unread)
	v.overBudget = slices.Clone(sum.overBudget)
	v.findLinks()
	v.listOverBudget()
	slices.Sort(v.saved.Unread)
	return v, v.writeObjects(ctx, v.top)
}

// start prepares a scan that begins with the index of the previous scan.
func (v *view) start(ctx context.Context, out objectWriter, only map[string]bool, narrow bool) (err error) {
	if v.self, err = v.root.lstat(""); err != nil {
		return err
	}
	d := v.dir
	rules, err := d.rules(ctx, v.root)
	if err != nil {
		return err
	}
	v.scan = &scan{dir: d, root: v.root, rules: rules, protected: rules, out: out, clock: newClock(v.root, v.self)}
	cached := d.takeCached() // the scan changes the index in place
	v.index = d.loadIndex(v.self, cached)
	isCached := cached != nil && v.index == cached.index
	if isCached {
		v.unsaved = cached.unsaved
	}
	v.scan.watch = d.beginWatched(v.index)
	if v.index == nil {
		v.top = &node{fresh: true}
		v.scan.markChanged(v.top)
		return nil
	}
	v.top = v.index.top
	if err := checkObjects(ctx, out, v.top); err != nil {
		return err
	}
	if v.index.rules != rules.hash {
		v.scan.reclassify = true
		v.scan.changed.Store(true)
	} else if isCached && !v.top.dirty.Load() {
		v.scan.only = only
	}
	if !v.scan.reclassify && rules.cover.is(v.top.tree) {
		uncovered := *rules
		uncovered.cover = nil
		v.scan.protected = &uncovered
		if narrow && v.scan.watch.canNarrow() && !v.top.dirty.Load() {
			v.narrow(isCached)
		}
	}
	return nil
}

// rules reads the root's .segnoignore. If the file exists and cannot be read, the version that
// was saved last applies, so that a symlink at its path does not end recording. If no version
// was saved, rules returns an error, because the snapshot would contain paths that the user
// excluded.
func (d *Dir) rules(ctx context.Context, top *dirHandle) (*rules, error) {
	cover := newCover(ctx, d.cache, d.coverage)
	text, err := top.readFile(ignoreName, maxIgnoreFile)
	if err != nil && !isGone(err) {
		var saved bool
		if text, saved = cover.ignoreText(); !saved {
			return nil, segno.NewError(segno.KindIO, "read "+ignoreName, "", err).WithHint("make " + ignoreName + " a readable file that is not a symlink")
		}
	}
	if cover != nil {
		cover.compare(text)
	}
	return newRules(text, d.reserved(), cover, d.budget), cover.failure()
}

// checkObjects compares the index with the store, which may have lost, or never received,
// objects of the last snapshot. If an object exists, all objects below it exist. If one is
// missing, checkObjects checks the objects below it one by one, and marks files to be read again
// if necessary.
func checkObjects(ctx context.Context, known objectWriter, n *node) error {
	if found, err := known.hasAll(ctx, n.tree, n.times); err != nil || found {
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
			if err := checkObjects(ctx, known, e.child); err != nil {
				return err
			}
		}
		found, err := known.hasAll(ctx, names...)
		if err != nil {
			return err
		}
		if !found && e.kind == kindDir {
			e.child.fresh = true
		} else if !found {
			e.st.ctime = 0 // no file has this ctime, so the scan reads the file
		}
	}
	return nil
}

// removeStrays removes the temporary files that an interrupted Apply left.
func (v *view) removeStrays() error {
	if len(v.scan.strays) == 0 {
		return nil
	}
	w, err := v.dir.openWriter()
	if err != nil {
		return err
	}
	defer w.close()
	for _, path := range v.scan.strays {
		if err := w.removeTemp(path); err != nil {
			return pathError("remove temporary file", path, err)
		}
	}
	return nil
}

// saveIndex saves the index if it changed. If the file lacks little, saveIndex only changes the file's time: to write
// the index of a large tree takes longer than to read a few files again in a later process.
func (v *view) saveIndex() error {
	file := v.dir.options.Index
	if file == "" {
		return nil
	}
	x, unsaved := v.index, v.unsaved.and(v.scan.reads())
	token := v.scan.watch.token()
	if v.index != nil && v.scan.only != nil && !v.scan.narrowed {
		token = v.index.token // the scan left out directories without asking the watcher
	}
	if mustSave := x != nil && v.scan.watch.mustSave(x.token, token); x == nil || mustSave || v.scan.changed.Load() {
		x = &index{root: v.self, rules: v.scan.rules.hash, token: token, top: v.top}
		if v.index == nil || mustSave || v.scan.reclassify || !unsaved.areFew(v.dir.options.Watch != nil) || !touchIndex(v.dir.options.FS, file) {
			v.top.each(func(*node, *entry) { x.entries++ })
			if err := saveIndex(v.dir.options.FS, file, x, v.dir.options.Sealer); err != nil {
				return err
			}
			unsaved = reads{}
		}
	}
	x.token = token
	v.cacheIndex(x, unsaved)
	return nil
}
