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
	r      io.Reader
	buf    []byte
	from   int // the line looked for begins here
	seen   int // no newline before this
	to     int // what was read ends here
	offset int64
	number int
	err    error
}

// newLines reads r, whose first byte is at offset in its file.
func newLines(r io.Reader, offset int64) *lines {
	return &lines{r: r, buf: make([]byte, blockSize), offset: offset}
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
	for {
		if i := bytes.IndexByte(l.buf[l.seen:l.to], '\n'); i >= 0 {
			end := l.seen + i + 1
			l.number++
			out := line{l.buf[l.from:end:end], l.offset, l.number}
			l.offset += int64(end - l.from)
			l.from, l.seen = end, end
			return out, true
		}
		l.seen = l.to
		if !l.fill() {
			return line{}, false
		}
	}
}

// fill reads on, behind what is there.
func (l *lines) fill() bool {
	if l.err != nil {
		return false
	}
	if l.from > 0 {
		copy(l.buf, l.buf[l.from:l.to])
		l.to -= l.from
		l.seen -= l.from
		l.from = 0
	}
	if l.to == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	n, err := l.r.Read(l.buf[l.to:])
	l.to += n
	l.err = err
	return n > 0 || err == nil
}

// close returns the error that ended the reading, nil for the end of the file,
// and how many bytes follow the last newline.
func (l *lines) close() (torn int, err error) {
	if l.err != nil && l.err != io.EOF {
		return l.to - l.from, l.err
	}
	return l.to - l.from, nil
}
