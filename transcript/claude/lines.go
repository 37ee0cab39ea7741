package claude

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"iter"

	"github.com/dalsegno/segno"
)

// blockSize is how much is read and written at once, and the size of the
// largest object a transcript is stored in.
const blockSize = 1 << 20

// lineReader reads whole lines, however long. It buffers one block or one line,
// whichever is longer.
type lineReader struct {
	blocks  blockReader
	block   []byte // the unread part of the newest block
	partial []byte // a line that began in an earlier block
	offset  int64
	number  int
	err     error
}

// blockReader returns the next bytes of a file, valid until the next call.
type blockReader interface{ next() ([]byte, error) }

// bufferedBlocks reads one block after another into the same buffer.
type bufferedBlocks struct {
	r   io.Reader
	buf []byte
}

func (b *bufferedBlocks) next() ([]byte, error) {
	n, err := b.r.Read(b.buf)
	return b.buf[:n], err
}

// newLineReader reads r, whose first byte is at offset in its file.
func newLineReader(r io.Reader, offset int64) *lineReader {
	return &lineReader{blocks: &bufferedBlocks{r, make([]byte, 64<<10)}, offset: offset}
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
	for {
		if i := bytes.IndexByte(l.block, '\n') + 1; i > 0 {
			text := l.block[:i:i]
			if len(l.partial) > 0 {
				l.partial = append(l.partial, text...)
				text = l.partial
			}
			l.block = l.block[i:]
			l.number++
			out := line{text, l.offset, l.number}
			l.offset += int64(len(text))
			return out, true
		}
		l.partial = append(l.partial, l.block...)
		l.block = nil
		if l.err != nil {
			return line{}, false
		}
		l.block, l.err = l.blocks.next()
	}
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

// readAhead is a blockReader that reads and hashes in a goroutine, a few blocks in front
// of its user.
type readAhead struct {
	full  chan block
	free  chan []byte
	stop  context.CancelFunc
	done  chan struct{}
	inUse []byte // the buffer of the block that next returned
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

func (a *readAhead) next() ([]byte, error) {
	if a.inUse != nil {
		a.free <- a.inUse
	}
	b := <-a.full
	a.inUse = b.buf
	return b.buf[:b.n], b.err
}

func (a *readAhead) lines() *lineReader { return &lineReader{blocks: a} }

// is reports whether the bytes read are those before p's offset. It stops the reading.
func (a *readAhead) is(p *segno.Position) bool {
	a.close()
	return a.total == p.Offset && segno.Hash(a.hash.Sum(nil)) == p.SHA256
}

// close ends the goroutine.
func (a *readAhead) close() {
	a.stop()
	<-a.done
}
