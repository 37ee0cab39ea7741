package claude

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"iter"

	"github.com/dalsegno/segno"
)

// blockSize is how much is read and written at once, and the size of the
// largest object a transcript is stored in.
const blockSize = 1 << 20

// lineReader reads whole lines, however long.
type lineReader struct {
	in      *bufio.Reader
	partial []byte // a line that does not fit into the buffer of in, or the torn last one
	offset  int64
	number  int
	err     error
}

// newLineReader reads r. Its first byte is at offset in its file.
func newLineReader(r io.Reader, offset int64) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 64<<10), offset: offset}
}

// line is one whole line with its newline. Its bytes are valid until the next line is read.
type line struct {
	bytes  []byte
	offset int64
	number int // from 1, counted from where reading began
}

// next returns the next line that ends in a newline. It returns false at the end and at an
// error; see [lineReader.end].
func (l *lineReader) next() (line, bool) {
	l.partial = l.partial[:0]
	for l.err == nil {
		var text []byte
		if text, l.err = l.in.ReadSlice('\n'); l.err == nil && len(l.partial) == 0 {
			return l.take(text), true
		}
		l.partial = append(l.partial, text...)
		if l.err == nil {
			return l.take(l.partial), true
		}
		if errors.Is(l.err, bufio.ErrBufferFull) {
			l.err = nil
		}
	}
	return line{}, false
}

func (l *lineReader) take(text []byte) line {
	l.number++
	l.offset += int64(len(text))
	return line{text, l.offset - int64(len(text)), l.number}
}

// all yields the lines up to the end or an error; see [lineReader.end].
func (l *lineReader) all() iter.Seq[line] {
	return func(yield func(line) bool) {
		for at, ok := l.next(); ok && yield(at); at, ok = l.next() {
		}
	}
}

// end returns the error that ended the reading, nil for the end of the file,
// and how many bytes follow the last newline.
func (l *lineReader) end() (torn int, err error) {
	if l.err == io.EOF { //nolint:errorlint // an error of a store may wrap the EOF of a connection
		return len(l.partial), nil
	}
	return len(l.partial), l.err
}

// readAhead is a reader that reads and hashes in a goroutine, a few blocks in front of its
// user.
type readAhead struct {
	full  chan block
	free  chan []byte
	stop  context.CancelFunc
	done  chan struct{}
	now   block  // that is being read
	rest  []byte // of now
	hash  hash.Hash
	total int64
}

// block is the result of one read.
type block struct {
	buf []byte
	n   int
	err error
}

// newReadAhead starts reading r. The caller must call close.
func newReadAhead(ctx context.Context, r io.Reader) *readAhead {
	const buffers = 3
	ctx, stop := context.WithCancel(ctx)
	// full has room for one block more than there are buffers, so that run can always
	// report the end of ctx.
	a := &readAhead{full: make(chan block, buffers+1), free: make(chan []byte, buffers), stop: stop, done: make(chan struct{}), hash: sha256.New()}
	for range buffers {
		a.free <- make([]byte, blockSize)
	}
	go a.run(ctx, r)
	return a
}

func (a *readAhead) run(ctx context.Context, r io.Reader) {
	defer close(a.done)
	for {
		select {
		case <-ctx.Done():
			a.full <- block{err: ctx.Err()}
			return
		case buf := <-a.free:
			n, err := r.Read(buf)
			a.hash.Write(buf[:n])
			a.total += int64(n)
			a.full <- block{buf, n, err}
			if err != nil {
				return
			}
		}
	}
}

func (a *readAhead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 && a.now.err == nil {
		if a.now.buf != nil {
			a.free <- a.now.buf
		}
		a.now = <-a.full
		a.rest = a.now.buf[:a.now.n]
	}
	n := copy(p, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) > 0 {
		return n, nil
	}
	return n, a.now.err
}

// is reports whether the bytes read are the bytes before p's offset. It stops the reading.
func (a *readAhead) is(p *segno.Position) bool {
	a.close()
	return a.total == p.Offset && segno.Hash(a.hash.Sum(nil)) == p.SHA256
}

// close ends the goroutine.
func (a *readAhead) close() {
	a.stop()
	<-a.done
}
