package sessionfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"github.com/dalsegno/segno"
)

// BlockSize is the number of bytes that are read or written at once. It is also the size of the
// largest object with a part of a transcript.
const BlockSize = 1 << 20

// MaxLine is the length of the longest line that is kept in memory. The limit is necessary because
// a transcript may be a hole of many gigabytes.
const MaxLine = 128 << 20

// LineReader reads whole lines. A line longer than [MaxLine] is returned with fewer bytes and
// without its newline.
type LineReader struct {
	// HasSum makes Sum the CRC-32C of all bytes of the lines returned so far.
	HasSum bool
	Sum    uint32

	max     int // MaxLine, except in tests
	in      blockReader
	rest    []byte // the bytes of in's newest block that were not read yet
	partial []byte // a line that is in several blocks, or the torn last one
	Offset  int64
	Number  int
	err     error // the error of in; rest may have bytes before it
}

// blockReader is a reader that lends its buffer.
type blockReader interface {
	// next returns the next bytes, which are valid until the next call. There may be bytes together with an error.
	next() ([]byte, error)
}

// NewLineReader reads r. The first byte of r is at offset in its file.
func NewLineReader(r io.Reader, offset int64) *LineReader {
	in, ok := r.(blockReader)
	if !ok {
		in = &buffered{in: r}
	}
	return &LineReader{max: MaxLine, in: in, Offset: offset}
}

// buffered is the [blockReader] of any reader.
type buffered struct {
	in  io.Reader
	buf []byte
}

func (b *buffered) next() ([]byte, error) {
	if b.buf == nil {
		b.buf = make([]byte, 64<<10)
	}
	n, err := b.in.Read(b.buf)
	return b.buf[:n], err
}

// Line is one whole line with its newline. Its bytes are valid until the next line is read.
type Line struct {
	Bytes  []byte
	Offset int64
	Number int // from 1, counted from where reading began
}

// Next returns the next line that ends in a newline. It returns false at the end and after an
// error; see [LineReader.End].
func (l *LineReader) Next() (Line, bool) {
	l.partial = l.partial[:0]
	skipped, sum := 0, l.Sum
	for l.fill() {
		text := l.rest
		end := bytes.IndexByte(text, '\n') + 1
		if end > 0 {
			text = text[:end]
		}
		l.rest = l.rest[len(text):]
		if l.HasSum {
			sum = crc32.Update(sum, Castagnoli(), text)
		}
		if end > 0 && len(l.partial)+skipped == 0 {
			l.Sum = sum
			return l.take(text, 0), true
		}
		if skipped > 0 || len(l.partial)+len(text) > l.max {
			skipped += len(text)
		} else {
			l.partial = append(l.partial, text...)
		}
		if end > 0 {
			l.Sum = sum
			return l.take(l.partial, skipped), true
		}
	}
	return Line{}, false
}

// fill reads the next block if all bytes were read. It returns false at the end and after an error.
func (l *LineReader) fill() bool {
	for empty := 0; len(l.rest) == 0 && l.err == nil; empty++ {
		if l.rest, l.err = l.in.next(); empty == maxEmptyReads && len(l.rest) == 0 && l.err == nil {
			l.err = io.ErrNoProgress
		}
	}
	return len(l.rest) > 0
}

// maxEmptyReads limits how often a reader may return neither bytes nor an error, as in package bufio.
const maxEmptyReads = 100

func (l *LineReader) take(text []byte, skipped int) Line {
	l.Number++
	at := l.Offset
	l.Offset += int64(len(text) + skipped)
	return Line{text, at, l.Number}
}

// All yields the lines up to the end or an error; see [LineReader.End].
func (l *LineReader) All() iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for at, ok := l.Next(); ok && yield(at); at, ok = l.Next() {
		}
	}
}

// End returns the number of bytes after the last newline, and the error that ended the reading. The
// error is nil at the end of the file.
func (l *LineReader) End() (torn int, err error) {
	if l.err == io.EOF { //nolint:errorlint // an error of a store may wrap the EOF of a connection
		return len(l.partial), nil
	}
	return len(l.partial), l.err
}

// ReadAhead is a reader that reads and hashes in a goroutine, a few blocks ahead of the caller.
type ReadAhead struct {
	full  chan block
	free  chan []byte
	stop  context.CancelFunc
	done  chan struct{}
	now   block  // the block that is being read
	rest  []byte // the unread part of now
	hash  hash.Hash
	total int64
}

// block is the result of one read.
type block struct {
	buf []byte
	n   int
	err error
}

// NewReadAhead starts reading r. The caller must call Close.
func NewReadAhead(ctx context.Context, r io.Reader) *ReadAhead {
	const buffers = 3
	ctx, stop := context.WithCancel(ctx)
	// full has a capacity of one block more than there are buffers, so that run can always report
	// the end of ctx.
	a := &ReadAhead{full: make(chan block, buffers+1), free: make(chan []byte, buffers), stop: stop, done: make(chan struct{}), hash: sha256.New()}
	for range buffers {
		a.free <- make([]byte, BlockSize)
	}
	go a.run(ctx, r)
	return a
}

func (a *ReadAhead) run(ctx context.Context, r io.Reader) {
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

func (a *ReadAhead) Read(p []byte) (int, error) {
	a.fill()
	n := copy(p, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) > 0 {
		return n, nil
	}
	return n, a.now.err
}

// next implements [blockReader].
func (a *ReadAhead) next() ([]byte, error) {
	a.fill()
	rest := a.rest
	a.rest = nil
	return rest, a.now.err
}

// fill waits for the next block if all bytes were read.
func (a *ReadAhead) fill() {
	if len(a.rest) > 0 || a.now.err != nil {
		return
	}
	if a.now.buf != nil {
		a.free <- a.now.buf
	}
	a.now = <-a.full
	a.rest = a.now.buf[:a.now.n]
}

// Is reports whether the bytes read are the bytes before p's offset. It stops the reading.
func (a *ReadAhead) Is(p *segno.Position) bool {
	a.Close()
	return a.total == p.Offset && segno.Hash(a.hash.Sum(nil)) == p.SHA256
}

// Close ends the goroutine.
func (a *ReadAhead) Close() {
	a.stop()
	<-a.done
}

// IsWhole reports whether a line was read to its end.
func (l Line) IsWhole() bool { return bytes.HasSuffix(l.Bytes, []byte{'\n'}) }

// CheckWhole returns an error for a line that was not read to its end, because such a line cannot
// be copied.
func (l Line) CheckWhole(op, name string) error {
	if l.IsWhole() {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, op, name, "line %d is longer than %d MiB", l.Number, MaxLine>>20)
}
