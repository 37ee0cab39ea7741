package workspace

import (
	"context"
	"errors"

	"github.com/dalsegno/segno"
)

// attempts is how often a file that changes while it is read is read again.
const attempts = 4

// readFiles reads the entries of one task and names their contents.
func (s *scan) readFiles(ctx context.Context, w *worker, t task) error {
	s.touch(t.n)
	for _, i := range t.files {
		e := &t.n.entries[i]
		size := e.st.size
		if err := s.readFile(ctx, w, t.dir.openDir, e); err != nil {
			return err
		}
		s.done.Add(size)
	}
	if s.progress != nil {
		s.tell.Lock()
		s.progress(s.done.Load(), s.total.Load())
		s.tell.Unlock()
	}
	return ctx.Err()
}

// readFile makes e what stands at its name: a file whose content was in no motion
// between two looks at it, or what has taken its place. What stays in motion, or
// cannot be read, is protected. The error is the sink's.
func (s *scan) readFile(ctx context.Context, w *worker, d *openDir, e *entry) error {
	for range attempts {
		content, attrs, ok, err := s.read(w, d, e)
		switch {
		case isGone(err):
			e.kind = 0
			return nil
		case err != nil && !isReplaced(err):
			e.protect(whyUnreadable)
			return nil
		case ok:
			return s.store(ctx, e, content, attrs)
		}
		st, err := d.stat(e.name)
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
				return nil
			}
			break
		}
	}
	e.protect(whyChanging)
	return nil
}

// store puts a file's content and attributes where they go.
func (s *scan) store(ctx context.Context, e *entry, content, attrs []byte) (err error) {
	if content == nil {
		e.hash, err = s.hollow(ctx, e.st.size)
	} else {
		e.hash, err = s.sink.content(ctx, content)
	}
	if err != nil {
		return err
	}
	e.xattrs = nil
	if attrs != nil {
		name, err := s.sink.object(ctx, attrs)
		if err != nil {
			return err
		}
		e.xattrs = &name
	}
	return nil
}

// hollow stores the content of a file that is nothing but a hole. Files like that
// come in numbers, and hashing their zeros would take as long as hashing data.
func (s *scan) hollow(ctx context.Context, size int64) (segno.Hash, error) {
	s.hole.Lock()
	defer s.hole.Unlock()
	if name, ok := s.zeros[size]; ok {
		return name, nil
	}
	name, err := s.sink.content(ctx, make([]byte, size))
	if err != nil {
		return segno.Hash{}, err
	}
	if s.zeros == nil {
		s.zeros = make(map[int64]segno.Hash)
	}
	s.zeros[size] = name
	return name, nil
}

// read returns the content and attributes of the file e describes; ok says that it
// was, and stayed, as e.st has it, and sets e.racy. The content is the worker's. It
// is nil for a file that is nothing but a hole.
func (s *scan) read(w *worker, d *openDir, e *entry) (content, attrs []byte, ok bool, err error) {
	f, err := d.open(e.name)
	if err != nil {
		return nil, nil, false, err
	}
	defer f.close()
	if st, err := f.stat(); err != nil || st != e.st {
		return nil, nil, false, err
	}
	trust := s.clock.trust(f.handle(), &e.st)
	if f.sparse && trust == trusted && f.hollow() {
		attrs, err = f.xattrs()
		e.racy = false
		return nil, attrs, err == nil, err
	}
	content = w.buffer(int(e.st.size) + 1) // one more than there should be
	n, err := s.fill(f, content)
	if err != nil || int64(n) != e.st.size {
		return nil, nil, false, err
	}
	content = content[:n]
	if trust == inMotion {
		if ok, err := s.again(f, content); err != nil || !ok {
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

// again reads a file that may be changing a second time, into the same buffer, and
// reports whether it read the same: a write under way, or a store through a
// mapping, can show in the content alone.
func (s *scan) again(f *openFile, content []byte) (bool, error) {
	before := segno.HashOf(content)
	if err := f.rewind(); err != nil {
		return false, err
	}
	n, err := s.fill(f, content)
	return err == nil && n == len(content) && segno.HashOf(content) == before, err
}

// buffer returns n bytes. It keeps what it returned for the next call, unless that
// is a lot.
func (w *worker) buffer(n int) []byte {
	if n > maxIgnored {
		return make([]byte, n)
	}
	if cap(w.content) < n {
		w.content = make([]byte, max(n, 256<<10))
	}
	return w.content[:n]
}

// readSymlink makes e the symlink at its name; false says that it is none.
func (s *scan) readSymlink(d *openDir, e *entry) bool {
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

// minHole is how much of a file must take no space for its holes to be looked for,
// or left when it is written.
const minHole = 64 << 10

// readFull reads until buf is full or the file ends.
func readFull(f *openFile, buf []byte) (n int, err error) {
	if f.sparse {
		return f.readSparse(buf)
	}
	for n < len(buf) {
		m, err := f.read(buf[n:])
		if n += m; err != nil || m == 0 {
			return n, err
		}
	}
	return n, nil
}

// readAll reads a whole file of at most limit bytes.
func (d *openDir) readAll(name string, limit int64) ([]byte, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.close()
	st, err := f.stat()
	if err != nil {
		return nil, err
	}
	if !st.is(typeFile) || st.size > limit {
		return nil, errors.New("not a file, or too large")
	}
	buf := make([]byte, st.size)
	n, err := readFull(f, buf)
	return buf[:n], err
}
