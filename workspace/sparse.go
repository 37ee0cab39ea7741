package workspace

import (
	"bytes"
	"io"

	"github.com/dalsegno/segno/internal/vfs"
)

// minHole is how many zeros in a row become a hole in a file that is written.
const minHole = 64 << 10

// blockSize is the unit in which the writer looks for zeros: no hole is smaller.
const blockSize = 4096

// sparseWriter writes a new file. Where the content has minHole zeros or more in a row the
// file gets a hole, whether or not the saved file had one there.
type sparseWriter struct {
	f     vfs.File
	size  int64 // of the content so far
	zeros int64 // how many zeros at its end are not written yet
}

// writeContent fills a new file.
func writeContent(f vfs.File, content []byte) error {
	w := &sparseWriter{f: f}
	if _, err := w.Write(content); err != nil {
		return err
	}
	return w.finish()
}

// copySparse fills a new file from r.
func copySparse(f vfs.File, r io.Reader) error {
	w := &sparseWriter{f: f}
	if _, err := io.CopyBuffer(w, struct{ io.Reader }{r}, make([]byte, 4*minHole)); err != nil {
		return err
	}
	return w.finish()
}

// finish writes the zeros at the end, or gives the file its size.
func (w *sparseWriter) finish() error {
	if w.zeros < minHole {
		return w.flush()
	}
	return w.f.Truncate(w.size)
}

// Write implements [io.Writer].
func (w *sparseWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		zeros, data := scanBlocks(rest, true), 0
		if w.zeros += int64(zeros); zeros < len(rest) {
			data = scanBlocks(rest[zeros:], false)
			if err := w.flush(); err != nil {
				return 0, err
			}
			if _, err := w.f.Write(rest[zeros : zeros+data]); err != nil {
				return 0, err
			}
		}
		w.size += int64(zeros + data)
		rest = rest[zeros+data:]
	}
	return len(p), nil
}

// flush writes the zeros that are due, or leaves a hole.
func (w *sparseWriter) flush() (err error) {
	if w.zeros >= minHole {
		_, err = w.f.Seek(w.zeros, io.SeekCurrent)
	} else if w.zeros > 0 {
		_, err = w.f.Write(make([]byte, w.zeros))
	}
	w.zeros = 0
	return err
}

// scanBlocks returns how many bytes at the start of p are blocks of zeros, or of anything
// else. A shorter block at the end counts as one.
func scanBlocks(p []byte, zeros bool) (n int) {
	var zero [blockSize]byte
	for n < len(p) {
		part := p[n:min(len(p), n+blockSize)]
		if bytes.Equal(part, zero[:len(part)]) != zeros {
			break
		}
		n += len(part)
	}
	return n
}
