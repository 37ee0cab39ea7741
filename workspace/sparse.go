package workspace

import (
	"bytes"
	"io"
	"slices"

	"github.com/dalsegno/segno/internal/vfs"
)

// minHole is the size of the blocks in which a file is written. A block of zeros becomes a hole.
const minHole = 64 << 10

// sparseWriter writes a new file. Blocks of zeros become holes, even if the saved file had none
// there.
type sparseWriter struct {
	f          vfs.File
	size       int64 // the size of the content so far
	endsInHole bool
}

// writeContent writes a new file from r, which is a [bytes.Reader] or a file.
func writeContent(f vfs.File, r io.WriterTo) error {
	w := &sparseWriter{f: f}
	if _, err := r.WriteTo(w); err != nil || !w.endsInHole {
		return err
	}
	return f.Truncate(w.size)
}

// Write implements [io.Writer]. Each call except the last must have a multiple of minHole bytes.
func (w *sparseWriter) Write(p []byte) (n int, err error) {
	for block := range slices.Chunk(p, minHole) {
		w.endsInHole = len(block) == minHole && len(bytes.TrimLeft(block, "\x00")) == 0
		if w.endsInHole {
			_, err = w.f.Seek(minHole, io.SeekCurrent)
		} else {
			_, err = w.f.Write(block)
		}
		if err != nil {
			return n, err
		}
		n += len(block)
		w.size += int64(len(block))
	}
	return n, nil
}
