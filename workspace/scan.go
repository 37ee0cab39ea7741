package workspace

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dalsegno/segno"
)

// scan updates the nodes of an index to the present state of the file system.
type scan struct {
	root      *dirHandle
	rules     *rules
	uncovered *rules // the same without a cover
	out       objectWriter
	clock     clock
	budget    budget
	only      map[string]bool // directories to scan; nil is all
	// reclassify means that the index was made with other rules.
	reclassify bool
	// sameCover means that the cover is the tree of the index. It does not hold an entry that
	// the index has as protected.
	sameCover bool
	progress  func(done, total int64)
	readFull  func(f *fileHandle, buf []byte) (int, error) // replaced by tests

	queue   *queue
	changed atomic.Bool // the index no longer equals the tree

	mu       sync.Mutex
	strays   []string // temporary files of an interrupted Apply
	large    []task   // files to read unless git ignores them
	deferred []task   // files to read if they fit into the budget

	zerosMu sync.Mutex
	zeros   map[int64]segno.Hash // contents of files that are nothing but a hole, by size

	progressMu  sync.Mutex
	done, total atomic.Int64 // bytes read, and bytes known to need it
}

// sharedDir is a directory that several tasks read from.
type sharedDir struct {
	*dirHandle
	tasks atomic.Int32
}

func (d *sharedDir) release() {
	if d.tasks.Add(-1) == 0 {
		d.close()
	}
}

// run scans the whole tree below top.
func (s *scan) run(ctx context.Context, top *node) error {
	s.queue = newQueue()
	s.queue.push(task{n: top})
	return s.queue.run(ctx, func(w *worker, t task) error {
		if t.dir != nil {
			defer t.dir.release()
			return s.readFiles(ctx, w, t)
		}
		return s.scanDir(ctx, w, t.n)
	})
}

// scanDir compares one directory with its node and pushes tasks for the directories and
// files below.
func (s *scan) scanDir(ctx context.Context, w *worker, n *node) error {
	handle, err := s.root.openDir(n.path)
	if err != nil {
		return s.addUnreadableDir(n, err)
	}
	dir := &sharedDir{dirHandle: handle}
	dir.tasks.Store(1)
	defer dir.release()

	l := listing{scan: s, n: n, dir: dir.dirHandle, old: n.entries, same: true, reads: w.reads[:0], found: w.found[:0]}
	if err := handle.list(w.dirents, l.visit); err != nil {
		return s.addUnreadableDir(n, err)
	}
	if l.tagged {
		n.why, n.entries = whyCache, nil
		return nil
	}
	if l.next < len(l.old) {
		l.differ(l.next) // the index has more entries than the directory
	}
	if !l.same {
		n.entries = l.out
		s.markChanged(n)
	}
	s.deferFiles(&s.deferred, n, l.late)
	s.deferFiles(&s.large, n, l.large)
	if n.path != "" {
		if err := s.readDirXattrs(ctx, n, handle); err != nil {
			return err
		}
	}
	w.reads, w.found = l.reads, l.found
	s.queue.push(l.found...)
	return s.readChunks(ctx, w, n, dir, l.reads)
}

// addUnreadableDir records that a directory cannot be read, or no longer exists. Without
// its root there is no tree.
func (s *scan) addUnreadableDir(n *node, err error) error {
	if n.path == "" {
		return err
	}
	switch {
	case isGone(err):
		n.gone = true
	case isReplaced(err):
		n.why = whyChanging
	default:
		n.why = whyUnreadable
	}
	n.entries = nil
	return nil
}

// markChanged records that n's objects must be made again.
func (s *scan) markChanged(n *node) {
	n.dirty.Store(true)
	s.changed.Store(true)
}

// readDirXattrs reads a directory's own extended attributes if the directory changed.
func (s *scan) readDirXattrs(ctx context.Context, n *node, dir *dirHandle) error {
	st, err := dir.lstat("")
	if err != nil || st.ctime == n.ctime && !n.fresh {
		return nil // the scan of the parent notices if the directory was removed
	}
	data, err := readXattrs(dir.fd)
	if err != nil {
		return nil
	}
	var name segno.Hash
	if data != nil {
		if name, err = s.out.putObject(ctx, data); err != nil {
			return err
		}
	}
	s.changed.Store(true)
	n.xattrs, n.ctime = name, st.ctime
	if s.clock.racy(&st) {
		n.ctime = 0
	}
	return nil
}

// A chunk of files is read as one task: enough of them to be worth handing over,
// few enough bytes to share a large directory among workers.
const (
	chunkFiles = 64
	chunkBytes = 4 << 20
)

// readChunks reads the first chunk of files itself and queues the others.
func (s *scan) readChunks(ctx context.Context, w *worker, n *node, dir *sharedDir, files []int32) error {
	if len(files) == 0 {
		return nil
	}
	sum := n.size(files)
	if s.total.Add(sum) > s.budget.bytes {
		s.total.Add(-sum)
		s.deferFiles(&s.deferred, n, files)
		return nil
	}
	first := n.chunk(files)
	for rest := files[len(first):]; len(rest) > 0; {
		part := n.chunk(rest)
		rest = rest[len(part):]
		dir.tasks.Add(1)
		s.queue.push(task{n: n, dir: dir, files: append([]int32(nil), part...)})
	}
	return s.readFiles(ctx, w, task{n: n, dir: dir, files: first})
}

// size returns how many bytes some files of n have.
func (n *node) size(files []int32) (sum int64) {
	for _, i := range files {
		sum += n.entries[i].st.size
	}
	return sum
}

// chunk returns the first files, as many as one task reads.
func (n *node) chunk(files []int32) []int32 {
	var bytes int64
	for i, at := range files {
		bytes += n.entries[at].st.size
		if i+1 == chunkFiles || bytes >= chunkBytes {
			return files[:i+1]
		}
	}
	return files
}

// deferFiles adds files to a list of tasks for when the whole tree is known. Until then
// nothing tells which files fit into the budget, or which ones git ignores.
func (s *scan) deferFiles(tasks *[]task, n *node, files []int32) {
	if len(files) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*tasks = append(*tasks, task{n: n, files: append([]int32(nil), files...)})
}
