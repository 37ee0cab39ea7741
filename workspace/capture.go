package workspace

import (
	"context"

	"github.com/dalsegno/segno"
)

// attempts is the largest number of times that a file is read if it changes during reading.
const attempts = 4

// readFiles reads the entries of one task and sets the hashes of their contents.
func (s *scan) readFiles(ctx context.Context, w *worker, dir *dirHandle, t task) error {
	s.markChanged(t.n)
	for _, i := range t.files {
		e := &t.n.entries[i]
		size := e.st.size
		if err := s.readFile(ctx, w, dir, e); err != nil {
			return err
		}
		s.done.Add(size)
	}
	s.filesRead.Add(int64(len(t.files)))
	if progress := s.dir.options.Progress; progress != nil {
		s.progressMu.Lock()
		progress(s.done.Load(), s.total.Load())
		s.progressMu.Unlock()
	}
	return ctx.Err()
}

// readFile sets e to the file, if its stat and content did not change during reading, or to
// another entry that replaced it. A file that keeps changing, or cannot be read, becomes
// protected. An entry that changed since the rules were applied to it becomes racy, so that the next
// scan applies them again: it may be a finished CACHEDIR.TAG now, or a larger file. readFile returns
// only errors of the object writer.
func (s *scan) readFile(ctx context.Context, w *worker, d *dirHandle, e *entry) error {
	for n := range attempts {
		content, attrs, ok, err := s.read(w, d, e)
		switch {
		case isGone(err):
			e.kind = 0
			return nil
		case err != nil && !isReplaced(err):
			e.protect(whyUnreadable)
			return nil
		case ok:
			e.racy = e.racy || n > 0
			return s.store(ctx, e, content, attrs)
		}
		st, err := d.lstat(e.name)
		if isGone(err) {
			e.kind = 0
			return nil
		}
		if err != nil {
			break
		}
		e.st = st
		if why := special(&st); why != "" {
			e.protect(why)
			return nil
		}
		if st.is(typeSymlink) {
			if s.readSymlink(d, e) {
				e.racy = true
				return nil
			}
			break
		}
	}
	e.protect(whyChanging)
	return nil
}

// store puts a file's content and attributes into the object writer.
func (s *scan) store(ctx context.Context, e *entry, content, attrs []byte) (err error) {
	if content == nil {
		e.hash, err = s.putZeros(ctx, e.st.size)
	} else {
		e.hash, err = s.out.putContent(ctx, content)
	}
	if err != nil {
		return err
	}
	e.xattrs = nil
	if attrs != nil {
		name, err := s.out.putObject(ctx, attrs)
		if err != nil {
			return err
		}
		e.xattrs = &name
	}
	return nil
}

// putZeros stores the content of a file that consists of one hole. It caches the hashes, because
// a tree may have many of these files, and hashing zeros takes as long as hashing data.
func (s *scan) putZeros(ctx context.Context, size int64) (segno.Hash, error) {
	s.zerosMu.Lock()
	defer s.zerosMu.Unlock()
	if name, ok := s.zeros[size]; ok {
		return name, nil
	}
	name, err := s.out.putContent(ctx, make([]byte, size))
	if err != nil {
		return segno.Hash{}, err
	}
	if s.zeros == nil {
		s.zeros = make(map[int64]segno.Hash)
	}
	s.zeros[size] = name
	return name, nil
}

// read returns the content and attributes of the file that e describes. ok reports that the
// file's stat was e.st before and after reading; read then sets e.racy. The content is valid
// until the worker's next read. It is nil for a file that consists of one hole.
func (s *scan) read(w *worker, d *dirHandle, e *entry) (content, attrs []byte, ok bool, err error) {
	f, err := d.open(e.name)
	if err != nil {
		return nil, nil, false, err
	}
	defer f.close()
	if st, err := f.stat(); err != nil || st != e.st {
		return nil, nil, false, err
	}
	trust := s.clock.trust(f.fd, &e.st)
	if f.sparse && trust == trusted && f.isHole() {
		attrs, err = f.xattrs()
		e.racy = false
		return nil, attrs, err == nil, err
	}
	content = w.buffer(int(e.st.size) + 1) // one byte more than expected, to detect growth
	n, err := s.dir.readFull(f, content)
	if err != nil || int64(n) != e.st.size {
		return nil, nil, false, err
	}
	content = content[:n]
	if trust == changing {
		if ok, err := s.readAgain(f, content); err != nil || !ok {
			return nil, nil, false, err
		}
	}
	if attrs, err = f.xattrs(); err != nil {
		return nil, nil, false, err
	}
	e.racy = trust != trusted
	st, err := f.stat()
	return content, attrs, err == nil && st == e.st, err
}

// readAgain reads a file that may be changing a second time, into the same buffer, and reports
// whether the content is the same. A write in progress, or a store through a mapping, may change
// only the content and not the stat.
func (s *scan) readAgain(f *fileHandle, content []byte) (bool, error) {
	before := segno.HashOf(content)
	if err := f.rewind(); err != nil {
		return false, err
	}
	n, err := s.dir.readFull(f, content)
	return err == nil && n == len(content) && segno.HashOf(content) == before, err
}

// buffer returns n bytes. It keeps the buffer for the next call, unless it is very large: new memory costs as much time as
// reading a file into it. A buffer at least doubles, so that files of slightly different sizes share one.
func (w *worker) buffer(n int) []byte {
	const smallest, largestKept = 256 << 10, 64 << 20
	if n > largestKept {
		w.content = nil // otherwise the worker would hold both
		return make([]byte, n)
	}
	if cap(w.content) < n {
		w.content = make([]byte, min(max(n, 2*cap(w.content), smallest), largestKept))
	}
	return w.content[:n]
}

// readSymlink sets e to the symlink at its name. It returns false if the name is not a symlink.
func (s *scan) readSymlink(d *dirHandle, e *entry) bool {
	target, err := d.readlink(e.name)
	if isGone(err) {
		e.kind = 0
		return true
	}
	if err != nil || target == "" {
		return false
	}
	*e = entry{name: e.name, st: e.st, kind: kindSymlink, note: target, racy: s.clock.racy(&e.st)}
	return true
}
