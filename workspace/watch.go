package workspace

import (
	"context"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace/internal/watch"
)

// Watch watches one tree for the Dirs of a process that share it, and keeps their newest index in memory. A Dir then scans
// only directories that may have changed: see [Dir.SnapshotWatched].
//
// While the tree is idle, Watch compares it with the index, to count the changes that it missed. After the first
// one that it missed, it narrows no scan any more.
type Watch struct {
	root   string
	in     *watch.Watcher
	report func(WatchReport)
	stop   context.CancelFunc
	wait   sync.WaitGroup
	scans  chan struct{} // receives a value after a scan
	idle   time.Duration // see idleWait
	settle time.Duration // see writeWait

	mu        sync.Mutex
	cached    *cachedIndex
	shared    bool               // other processes use it: see Serve
	dir       *Dir               // the newest one that uses w
	stopCheck context.CancelFunc // of a check under way, or nil
	checked   chan struct{}      // closed when that check ends
	stats     WatchStats
}

// WatchStats are counts of a [Watch] since it began.
type WatchStats struct {
	watch.Stats
	Narrowed int `json:"narrowed"` // scans that did not read every directory
	Whole    int `json:"whole"`    // scans that did
	Served   int `json:"served"`   // scans of other processes that asked: see Serve
	Checks   int `json:"checks"`   // comparisons of the whole tree with the index
	Missed   int `json:"missed"`   // directories with a change that the watcher had not reported
}

// NewWatch watches the tree in the directory root until Close. private is a directory of segno's own. report, if not nil, is
// called after each comparison; comparisons end with ctx. The error has [segno.KindRefused] if the system cannot watch the tree.
func NewWatch(ctx context.Context, root, private string, report func(WatchReport)) (*Watch, error) {
	w, err := newWatch(root, private, report, watch.Open)
	if err == nil {
		w.run(ctx)
	}
	return w, err
}

func newWatch(root, private string, report func(WatchReport), open func(root, private string) (*watch.Watcher, error)) (*Watch, error) {
	real, err := realDir(root)
	if err != nil {
		return nil, pathError("watch", root, err)
	}
	in, err := open(real, private)
	if err != nil {
		return nil, segno.NewError(segno.KindRefused, "watch", root, err)
	}
	return &Watch{root: real, in: in, report: report, stop: func() {}, scans: make(chan struct{}, 1), idle: idleWait, settle: writeWait}, nil
}

// run starts the goroutines of w.
func (w *Watch) run(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	w.wait.Go(w.in.Read)
	w.wait.Go(func() { w.checkWhenIdle(ctx) })
}

// Close stops the watcher and waits for a comparison under way. Dirs that share w then scan every directory.
func (w *Watch) Close() error {
	w.stop()
	err := w.in.Close()
	w.wait.Wait()
	return err
}

// Stats returns the counts of w.
func (w *Watch) Stats() WatchStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Stats = w.in.Stats()
	return s
}

// begin reads the events of all completed changes, for a scan that starts from the index with the token since.
func (w *Watch) begin(since watch.Token) *watched {
	now, err := w.in.Sync()
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &watched{in: ownDirectories{w.in}, since: since, now: now, trusted: w.stats.Missed == 0, shared: w.shared, close: func() {}}
}

// beginWatched asks the watcher of this process or of another one. It returns nil if there is none.
func (d *Dir) beginWatched(x *index) *watched {
	var since watch.Token
	if x != nil {
		since = x.token
	}
	if d.options.Watch != nil {
		return d.options.Watch.begin(since)
	}
	if d.options.DialWatch != nil {
		if conn, err := d.options.DialWatch(); err == nil {
			return beginRemote(conn, since)
		}
	}
	return nil
}

// take returns the index in memory, or nil, and removes it from w, because a scan changes it in place. It ends a check
// that is reading the index.
func (w *Watch) take() *cachedIndex {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.stopCheck != nil {
		w.stopCheck()
		done := w.checked
		w.mu.Unlock()
		<-done
		w.mu.Lock()
	}
	c := w.cached
	w.cached = nil
	return c
}

// count counts a scan.
func (w *Watch) count(s *scan) {
	w.mu.Lock()
	switch {
	case s.narrowed:
		w.stats.Narrowed++
	case s.only == nil:
		w.stats.Whole++
	}
	w.mu.Unlock()
	w.noteScan()
}

// noteScan begins the time after which the tree counts as idle.
func (w *Watch) noteScan() {
	select {
	case w.scans <- struct{}{}:
	default:
	}
}

// takeCached returns the index of the newest scan in this process, or nil, and removes it.
func (d *Dir) takeCached() *cachedIndex {
	if w := d.options.Watch; w != nil {
		return w.take()
	}
	c := d.cached
	d.cached = nil
	return c
}

// returnCached puts back the index that takeCached returned.
func (d *Dir) returnCached(c *cachedIndex) {
	w := d.options.Watch
	if w == nil {
		d.cached = c
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cached = c
}

// keepCached keeps the index of a scan for the next one.
func (d *Dir) keepCached(c *cachedIndex, s *scan) {
	d.returnCached(c)
	if w := d.options.Watch; w != nil {
		w.count(s)
	}
}
