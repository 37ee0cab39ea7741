package workspace

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dalsegno/segno"
)

// sink takes what a scan finds: contents of files, and the objects around them.
type sink interface {
	content(ctx context.Context, data []byte) (segno.Hash, error)
	object(ctx context.Context, data []byte) (segno.Hash, error)
}

// scan brings the nodes of an index up to what the file system has now.
type scan struct {
	root       *rootDir
	rules      *rules
	uncovered  *rules // the same without a cover
	sink       sink
	clock      clock
	only       map[string]bool // directories to look at; nil is all
	reclassify bool            // the rules are not those of the index
	known      bool            // what the index has as protected the cover has, too
	progress   func(done, total int64)
	fill       func(f *openFile, buf []byte) (int, error) // readFull, but in tests
	budget     budget

	queue   *queue
	changed atomic.Bool // the index no longer says what is

	mu     sync.Mutex
	strays []string // temporary files of an Apply that was broken off
	large  []task   // files to read unless git ignores them
	late   []task   // files to read if they are within the budget

	hole  sync.Mutex
	zeros map[int64]segno.Hash // contents of files that are nothing but a hole, by size

	done, total atomic.Int64 // bytes read, and bytes known to need it
	tell        sync.Mutex
}

// sharedDir is a directory that several tasks read from.
type sharedDir struct {
	*openDir
	tasks atomic.Int32
}

func (d *sharedDir) release() {
	if d.tasks.Add(-1) == 0 {
		d.close()
	}
}

// walk scans the whole tree below top.
func (s *scan) walk(ctx context.Context, top *node) error {
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

// scanDir compares one directory with its node and pushes what lies below.
func (s *scan) scanDir(ctx context.Context, w *worker, n *node) error {
	d, err := s.root.open(n.path)
	if err != nil {
		return s.lost(n, err)
	}
	dir := &sharedDir{openDir: d}
	dir.tasks.Store(1)
	defer dir.release()

	l := listing{scan: s, n: n, dir: d, old: n.entries, same: true, reads: w.reads[:0], found: w.found[:0]}
	if err := d.read(w.dirents, l.visit); err != nil {
		return s.lost(n, err)
	}
	if l.tagged {
		n.why, n.entries = whyCache, nil
		return nil
	}
	l.differAtEnd()
	if !l.same {
		n.entries = l.out
		s.touch(n)
	}
	s.postpone(n, l.late)
	if len(l.large) > 0 {
		s.mu.Lock()
		s.large = append(s.large, task{n: n, files: l.large})
		s.mu.Unlock()
	}
	if n.path != "" {
		if err := s.attributes(ctx, n, d); err != nil {
			return err
		}
	}
	w.reads, w.found = l.reads, l.found
	s.queue.push(l.found...)
	return s.share(ctx, w, n, dir, l.reads)
}

// lost handles a directory that cannot be read: it is gone, or it is recorded as
// unreadable. Without its root there is no tree.
func (s *scan) lost(n *node, err error) error {
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

// touch notes that n's objects must be made anew.
func (s *scan) touch(n *node) {
	n.dirty.Store(true)
	s.changed.Store(true)
}

// attributes reads the directory's own extended attributes if it changed at all.
func (s *scan) attributes(ctx context.Context, n *node, d *openDir) error {
	st, err := d.self()
	if err != nil || st.ctime == n.ctime && !n.fresh {
		return nil // one that is gone by now shows in its parent
	}
	data, err := d.xattrs()
	if err != nil {
		return nil
	}
	var name segno.Hash
	if data != nil {
		if name, err = s.sink.object(ctx, data); err != nil {
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

// share reads files, the first chunk at once, the others by whoever is free.
func (s *scan) share(ctx context.Context, w *worker, n *node, dir *sharedDir, files []int32) error {
	if len(files) == 0 {
		return nil
	}
	var sum int64
	for _, i := range files {
		sum += n.entries[i].st.size
	}
	if s.total.Add(sum) > s.budget.bytes {
		s.total.Add(-sum)
		s.postpone(n, files)
		return nil
	}
	first := chunk(n, files)
	for rest := files[len(first):]; len(rest) > 0; {
		part := chunk(n, rest)
		rest = rest[len(part):]
		dir.tasks.Add(1)
		s.queue.push(task{n: n, dir: dir, files: append([]int32(nil), part...)})
	}
	return s.readFiles(ctx, w, task{n: n, dir: dir, files: first})
}

func chunk(n *node, files []int32) []int32 {
	var bytes int64
	for i, at := range files {
		bytes += n.entries[at].st.size
		if i+1 == chunkFiles || bytes >= chunkBytes {
			return files[:i+1]
		}
	}
	return files
}
