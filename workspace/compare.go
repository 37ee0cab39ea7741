package workspace

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dalsegno/segno/workspace/internal/watch"
)

// This file compares a tree with its index while the tree is idle, to count the changes that caused no event.

// WatchReport is the result of a comparison.
type WatchReport struct {
	Missed []string // directories with a change that the watcher had not reported
	Err    error
}

// idleWait is how long after a scan the tree counts as idle.
const idleWait = 10 * time.Second

// writeWait is how long a comparison waits for the event of a change that it found. A write changes the times of a file
// first, and its event follows when it returns.
const writeWait = 3 * time.Second

// use sets the Dir whose index file Check reads while other processes scan the tree.
func (w *Watch) use(d *Dir) {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dir = d
	}
}

// savedIndex returns the index that another process saved, or nil.
func (d *Dir) savedIndex(ctx context.Context) *cachedIndex {
	root, err := openRoot(d.root)
	if err != nil {
		return nil
	}
	defer root.close()
	self, err := root.lstat("")
	if err != nil {
		return nil
	}
	r, err := d.rules(ctx, root)
	if err != nil {
		return nil
	}
	x := d.loadIndex(self, nil)
	if x == nil || x.rules != r.hash {
		return nil
	}
	v := &view{dir: d, top: x.top, whole: true, scan: &scan{dir: d, rules: r}}
	v.summarize(x.top)
	return &cachedIndex{index: x, rules: r}
}

// checkWhenIdle compares the tree with the index once after each series of scans.
func (w *Watch) checkWhenIdle(ctx context.Context) {
	var idle <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.scans:
			idle = time.After(w.idle)
		case <-idle:
			idle = nil
			missed, err := w.Check(ctx)
			if w.report != nil && !errors.Is(err, context.Canceled) {
				w.report(WatchReport{missed, err})
			}
		}
	}
}

// Check compares the whole tree with the index in memory and returns the directories with a change that the watcher had
// not reported. It pauses often, so that it uses a fifth of a processor. A scan ends it with [context.Canceled].
func (w *Watch) Check(ctx context.Context) (missed []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	c, d := w.cached, w.dir
	if w.stopCheck != nil || c == nil && !w.shared {
		w.mu.Unlock()
		return nil, nil
	}
	w.cached, w.stopCheck, w.checked = nil, cancel, make(chan struct{})
	w.mu.Unlock()
	compared := c
	if w.shared && d != nil {
		compared = d.savedIndex(ctx)
	}
	if compared != nil {
		missed, err = w.compare(ctx, compared)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && compared != nil {
		w.stats.Checks++
		w.stats.Missed += len(missed)
	}
	w.cached, w.stopCheck = c, nil
	close(w.checked)
	return missed, err
}

// compare returns the directories of an index that differ from the disk, although they had no event until after the
// comparison.
func (w *Watch) compare(ctx context.Context, c *cachedIndex) (missed []string, err error) {
	root, err := openRoot(w.root)
	if err != nil {
		return nil, err
	}
	defer root.close()
	self, err := root.lstat("")
	if err != nil || !self.isSameFile(&c.index.root) {
		return nil, err
	}
	if _, err := w.in.Sync(); err != nil {
		return nil, err
	}
	k := &comparison{ctx: ctx, root: root, in: w.in, since: c.index.token, rules: c.rules, buf: make([]byte, direntBytes)}
	k.below(c.index.top, watch.Dir{Dev: self.dev, Ino: self.ino})
	if len(k.differ) > 0 {
		select {
		case <-time.After(w.settle):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, err := w.in.Sync(); err != nil {
		return nil, err
	}
	for _, f := range k.differ { // a change during the comparison has an event by now
		if w.in.IsUnchanged(f.dir, k.since) {
			missed = append(missed, f.path)
		}
	}
	slices.Sort(missed)
	return missed, nil
}

// comparison compares an index with the disk and changes neither.
type comparison struct {
	ctx    context.Context
	root   *dirHandle
	in     *watch.Watcher
	since  watch.Token
	rules  *rules
	buf    []byte
	worked time.Duration // since the last pause
	differ []found
}

// found is a directory that differs.
type found struct {
	dir  watch.Dir
	path string
}

// below compares the directories at and below n, which is the directory d.
func (k *comparison) below(n *node, d watch.Dir) {
	if k.ctx.Err() != nil {
		return
	}
	if !n.sum.unstable && k.in.IsUnchanged(d, k.since) {
		start := time.Now()
		if k.differs(n) {
			k.differ = append(k.differ, found{d, n.path})
		}
		k.pause(time.Since(start))
	}
	for _, i := range n.sum.dirs {
		e := &n.entries[i]
		k.below(e.child, watch.Dir{Dev: e.st.dev, Ino: e.st.ino})
	}
}

// pause waits four times as long as the comparison worked.
func (k *comparison) pause(worked time.Duration) {
	if k.worked += worked; k.worked < 2*time.Millisecond {
		return
	}
	select {
	case <-time.After(4 * k.worked):
	case <-k.ctx.Done():
	}
	k.worked = 0
}

// differs reports whether a scan of the directory would find a change.
func (k *comparison) differs(n *node) bool {
	dir, err := k.root.openDir(n.path)
	if err != nil {
		return true
	}
	defer dir.close()
	count, next, same := 0, 0, true
	err = dir.list(k.buf, func(name []byte, st *stat, err error) {
		if !same || name[0] == '.' && err == nil && !st.is(typeDir) && isTemp(string(name)) || k.rules.isBesideDatabase(n.path, name) {
			return
		}
		count++
		if next < len(n.entries) && n.entries[next].name == string(name) {
			next++
		} else if at, ok := n.position(string(name)); ok {
			next = at + 1
		} else {
			same = false
			return
		}
		same = err == nil && n.entries[next-1].equals(st)
	})
	return err != nil || !same || count != len(n.entries)
}

// equals reports whether a scan would find the entry unchanged.
func (e *entry) equals(st *stat) bool {
	switch e.kind {
	case kindDir:
		return st.is(typeDir) && st.perm() == e.st.perm() && st.owner() == e.st.owner()
	case kindProtected:
		return true // its content is not recorded
	}
	return *st == e.st
}
