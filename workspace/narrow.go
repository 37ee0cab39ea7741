package workspace

import (
	"context"

	"github.com/dalsegno/segno/workspace/internal/watch"
)

// watched is the watcher's answer to one scan. A nil watched is that of a tree without a watcher.
type watched struct {
	in         directories
	since, now watch.Token // of the index from which the scan starts, and of the scan
	trusted    bool        // the watcher has missed nothing so far
	shared     bool        // other processes use the watcher, and read the index from its file
	close      func()
}

// ownDirectories are those that this process watches.
type ownDirectories struct{ *watch.Watcher }

func (o ownDirectories) Mark(fd int, _ string, d watch.Dir, since watch.Token) error {
	return o.Watcher.Mark(fd, d, since)
}

// directories are those that a watcher watches: this process's watcher or that of another process.
type directories interface {
	IsMarked(d watch.Dir) bool
	IsUnchanged(d watch.Dir, since watch.Token) bool
	// Mark watches the directory at path, which is open as fd. The caller lists it afterwards.
	Mark(fd int, path string, d watch.Dir, since watch.Token) error
}

func (w *watched) canNarrow() bool { return w != nil && w.trusted }

// mustSave reports whether an index must be saved because its token changed, so that other processes can rely on the watcher.
func (w *watched) mustSave(before, token watch.Token) bool {
	return w != nil && w.shared && before.Watcher != token.Watcher
}

func (w *watched) token() watch.Token {
	if w == nil {
		return watch.Token{}
	}
	return w.now
}

func (w *watched) isMarked(st *stat) bool { return w.in.IsMarked(watch.Dir{Dev: st.dev, Ino: st.ino}) }

// mark watches a directory that the scan is about to list. A directory that cannot be watched is scanned each time, so an
// error has no other effect.
func (w *watched) mark(dir *dirHandle, path string) {
	if w == nil {
		return
	}
	if st, err := dir.lstat(""); err == nil {
		if d := (watch.Dir{Dev: st.dev, Ino: st.ino}); !w.in.IsMarked(d) {
			_ = w.in.Mark(dir.fd, path, d, w.now)
		}
	}
}

// narrow limits the scan to the directories that may have changed, and those above them, which it reads again because they
// record the modes of the directories below. A scan of most of the tree is not narrowed.
func (v *view) narrow(isCached bool) {
	if !isCached {
		v.whole = true // the file of the index does not contain the totals
		v.summarize(v.top)
		v.whole = false
	}
	var changed []string
	all := v.scan.watch.findChanged(v.top, watch.Dir{Dev: v.self.dev, Ino: v.self.ino}, &changed)
	if len(changed) > all/2 {
		return
	}
	v.scan.only, v.scan.narrowed, v.scan.named = leading(changed), true, make(map[inode]bool)
}

// findChanged lists the directories at and below n, which is the directory d, that may have changed. It returns how many
// directories there are.
func (w *watched) findChanged(n *node, d watch.Dir, changed *[]string) (all int) {
	if n.sum.unstable || !w.in.IsUnchanged(d, w.since) {
		*changed = append(*changed, n.path)
	}
	for _, i := range n.sum.dirs {
		e := &n.entries[i]
		all += w.findChanged(e.child, watch.Dir{Dev: e.st.dev, Ino: e.st.ino}, changed)
	}
	return all + 1
}

// addNamed records that the number of names of a file changed.
func (s *scan) addNamed(st *stat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named[inode{st.dev, st.ino}] = true
}

// scanOtherNames completes a narrowed scan that found a new name of a file. The file may have been written through the new
// name, which causes no event for the directories of its other names.
func (v *view) scanOtherNames(ctx context.Context) error {
	if len(v.scan.named) == 0 {
		return nil
	}
	others := make(map[*node]bool)
	v.top.each(func(n *node, e *entry) {
		if !n.scanned && e.isFile() && v.scan.named[inode{e.st.dev, e.st.ino}] {
			others[n] = true
		}
	})
	for n := range others { // one after the other, because the scan of one may reach another
		if n.scanned {
			continue
		}
		if err := v.scan.run(ctx, task{n: n}); err != nil {
			return err
		}
	}
	for n := range others {
		for above := range leading([]string{n.path}) {
			if e := v.top.lookup(above); e != nil {
				e.child.scanned = true // its totals and objects change, too
			}
		}
	}
	return nil
}
