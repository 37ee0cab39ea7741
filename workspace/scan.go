package workspace

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dalsegno/segno"
)

// scan updates the nodes of an index to the current state of the file system.
type scan struct {
	dir   *Dir
	root  *dirHandle
	rules *rules
	// protected are the rules for the entries that are protected in the index. They are the
	// same rules, but without the cover if that is the tree of the index, because it then holds
	// none of these entries.
	protected *rules
	out       objectWriter
	clock     clock
	only      map[string]bool // the directories to scan; nil means all
	watch     *watched        // the watcher of the tree, or nil
	narrowed  bool            // only is from the watcher: it lists each directory that may have changed
	// reclassify is set if the index was made with other rules.
	reclassify bool

	queue   *queue[task]
	changed atomic.Bool // the index no longer equals the tree

	mu       sync.Mutex
	strays   []string       // temporary files of an interrupted Apply
	named    map[inode]bool // files that have another number of names than in the index; only if narrowed is set
	large    []task         // files to read unless git ignores them
	deferred []task         // files to read if they fit into the budget

	zerosMu sync.Mutex
	zeros   map[int64]segno.Hash // the contents of files that consist of one hole, by size

	progressMu  sync.Mutex   // held while the caller's Progress runs
	done, total atomic.Int64 // bytes read, and bytes known to need reading
	filesRead   atomic.Int64
}

// task is a directory to scan or, if files is set, some of its entries to read.
type task struct {
	n     *node
	files []int32
}

// worker holds the buffers that one goroutine reuses for its tasks.
type worker struct {
	dirents []byte
	content []byte
	found   []task
	reads   []int32
}

// run does tasks, the last one first, and the tasks that they add.
func (s *scan) run(ctx context.Context, tasks ...task) error {
	s.queue = newQueue(tasks)
	return s.queue.run(ctx, func() (func(task) error, func()) {
		w := &worker{dirents: make([]byte, direntBytes)}
		return func(t task) error {
			if t.files == nil {
				return s.scanDir(ctx, w, t.n)
			}
			return s.openAndRead(ctx, w, t)
		}, func() {}
	})
}

// openAndRead reads the files of a task that another worker queued.
func (s *scan) openAndRead(ctx context.Context, w *worker, t task) error {
	dir, err := s.root.openDir(t.n.path)
	if err != nil {
		for _, i := range t.files {
			if e := &t.n.entries[i]; isGone(err) {
				e.kind = 0
			} else {
				e.protect(whyUnread(err))
			}
		}
		s.markChanged(t.n)
		return nil
	}
	defer dir.close()
	return s.readFiles(ctx, w, dir, t)
}

// scanDir compares one directory with its node and pushes tasks for the directories and
// files below.
func (s *scan) scanDir(ctx context.Context, w *worker, n *node) error {
	n.scanned = true
	dir, err := s.root.openDir(n.path)
	if err != nil {
		return s.addUnreadableDir(n, err)
	}
	defer dir.close()
	s.watch.mark(dir, n.path)
	l := dirScan{scan: s, n: n, dir: dir, old: n.entries, same: true, reads: w.reads[:0], found: w.found[:0]}
	if err := dir.list(w.dirents, l.visit); err != nil {
		return s.addUnreadableDir(n, err)
	}
	if l.tagged {
		n.why, n.entries, n.byName = whyCache, nil, nil
		return nil
	}
	if l.next < len(l.old) {
		l.differ(l.next) // the index has more entries than the directory
	}
	if !l.same {
		n.entries, n.byName = l.out, nil
		s.markChanged(n)
	}
	s.deferFiles(&s.deferred, n, l.late)
	s.deferFiles(&s.large, n, l.large)
	if n.path != "" {
		if err := s.readDirXattrs(ctx, n, dir); err != nil {
			return err
		}
	}
	w.reads, w.found = l.reads, l.found
	s.queue.push(l.found...)
	return s.readChunks(ctx, w, n, dir, l.reads)
}

// addUnreadableDir records that a directory cannot be read, or no longer exists. For the root
// it returns an error, because there is no tree.
func (s *scan) addUnreadableDir(n *node, err error) error {
	if n.path == "" {
		return err
	}
	if n.gone = isGone(err); !n.gone {
		n.why = whyUnread(err)
	}
	n.entries, n.byName = nil, nil
	return nil
}

// whyUnread returns why a path that cannot be opened is protected.
func whyUnread(err error) string {
	if isReplaced(err) {
		return whyChanging
	}
	return whyUnreadable
}

// reads returns what the scan has read. If it had to ask git's index or the budget about large files, the number of
// files is so high that the index is written, because to ask again takes longer.
func (s *scan) reads() reads {
	r := reads{files: s.filesRead.Load(), bytes: s.done.Load()}
	if len(s.large) > 0 || len(s.deferred) > 0 {
		r.files = math.MaxInt32
	}
	return r
}

// markChanged records that n's objects must be written again.
func (s *scan) markChanged(n *node) {
	n.dirty.Store(true)
	s.changed.Store(true)
}

// readDirXattrs reads a directory's own extended attributes if the directory changed.
func (s *scan) readDirXattrs(ctx context.Context, n *node, dir *dirHandle) error {
	st, err := dir.lstat("")
	if err != nil || st.ctime == n.ctime && !n.fresh {
		return nil // if the directory was removed, the scan of its parent finds that
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
	if s.clock.racy(&st) {
		st.ctime = 0 // no directory has this ctime, so the next scan reads the attributes
	}
	if name != n.xattrs || st.ctime != n.ctime {
		n.xattrs, n.ctime = name, st.ctime
		s.changed.Store(true)
	}
	return nil
}

// One task reads a chunk of files: enough of them to justify a separate task, and few enough
// bytes to divide a large directory among workers.
const (
	chunkFiles = 64
	chunkBytes = 4 << 20
)

// readChunks reads the first chunk of files itself and queues the others.
func (s *scan) readChunks(ctx context.Context, w *worker, n *node, dir *dirHandle, files []int32) error {
	if len(files) == 0 {
		return nil
	}
	sum := n.size(files)
	if s.total.Add(sum) > s.dir.budget.bytes {
		s.total.Add(-sum)
		s.deferFiles(&s.deferred, n, files)
		return nil
	}
	first := n.chunk(files)
	for rest := files[len(first):]; len(rest) > 0; {
		part := n.chunk(rest)
		rest = rest[len(part):]
		s.queue.push(task{n: n, files: slices.Clone(part)})
	}
	return s.readFiles(ctx, w, dir, task{n: n, files: first})
}

// size returns the total size of some files of n.
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

// deferFiles adds files to a list of tasks that run once the whole tree is known. Only then is
// it known which files fit into the budget and which ones git ignores.
func (s *scan) deferFiles(tasks *[]task, n *node, files []int32) {
	if len(files) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*tasks = append(*tasks, task{n: n, files: slices.Clone(files)})
}
