package transcript

import (
	"bytes"
	"io"
)

// blockSize is how much is read and written at once, and the size of the
// largest object a transcript is stored in.
const blockSize = 1 << 20

// lines reads whole lines, however long. It holds one block or one line,
// whichever is longer.
type lines struct {
	blocks interface {
		// next returns the next bytes, good until the next call.
		next() ([]byte, error)
	}
	block  []byte // what of it is left
	begun  []byte // a line that began in an earlier block
	offset int64
	number int
	err    error
}

// newLines reads r, whose first byte is at offset in its file.
func newLines(r io.Reader, offset int64) *lines {
	return &lines{blocks: &blocks{r: r}, offset: offset}
}

// blocks reads block after block into the same memory.
type blocks struct {
	r   io.Reader
	buf []byte
}

func (b *blocks) next() ([]byte, error) {
	if b.buf == nil {
		b.buf = make([]byte, 64<<10)
	}
	n, err := b.r.Read(b.buf)
	if n == len(b.buf) && n < blockSize {
		defer func() { b.buf = make([]byte, blockSize) }()
	}
	return b.buf[:n], err
}

// line is one whole line with its newline. Its bytes are good until the next
// call.
type line struct {
	bytes  []byte
	offset int64
	number int // from 1, counted from where reading began
}

// next returns the next line that ends in a newline, or false at the end or at
// an error; see [lines.close].
func (l *lines) next() (line, bool) {
	l.begun = l.begun[:0]
	for {
		if i := bytes.IndexByte(l.block, '\n') + 1; i > 0 {
			text := l.block[:i:i]
			if len(l.begun) > 0 {
				l.begun = append(l.begun, text...)
				text = l.begun
			}
			l.block = l.block[i:]
			l.number++
			out := line{text, l.offset, l.number}
			l.offset += int64(len(text))
			return out, true
		}
		l.begun = append(l.begun, l.block...)
		l.block = nil
		if l.err != nil {
			return line{}, false
		}
		l.block, l.err = l.blocks.next()
	}
}

// close returns the error that ended the reading, nil for the end of the file,
// and how many bytes follow the last newline.
func (l *lines) close() (torn int, err error) {
	if l.err != nil && l.err != io.EOF {
		return len(l.begun), l.err
	}
	return len(l.begun), nil
}
