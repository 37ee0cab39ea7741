package claude

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/dalsegno/segno"
)

const opReadLog = "read stored transcript"

// openLog returns the bytes of a log.
func openLog(ctx context.Context, o segno.Objects, name segno.Hash, size int64) (io.Reader, error) {
	logs, err := readLog(ctx, o, name, size)
	if err != nil {
		return nil, err
	}
	// Lines stay lines and records stay records whatever session id they have, so only
	// the newest id must be filled in.
	newest := slices.IndexFunc(logs, func(n logNode) bool { return n.session != "" })
	tail := &chunkReader{ctx: ctx, objects: o}
	r := io.Reader(tail)
	for i, n := range slices.Backward(logs) {
		if i != newest {
			n.session = ""
		}
		if n.session != "" || n.keep != nil {
			tail = &chunkReader{ctx: ctx, objects: o}
			r = io.MultiReader(newLineFilter(r, n.keep, n.session), tail)
		}
		tail.chunks = append(tail.chunks, n.chunks...)
	}
	return &sizedReader{r, size}, nil
}

// chunkReader reads chunks one after another.
type chunkReader struct {
	ctx     context.Context
	objects segno.Objects
	chunks  []chunk
	rest    []byte
}

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		c := r.chunks[0]
		data, err := r.objects.Get(r.ctx, c.name)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", opReadLog, err)
		}
		if int64(len(data)) != c.size {
			return 0, segno.Errorf(segno.KindCorrupt, opReadLog, c.name.String(), "%d bytes instead of %d", len(data), c.size)
		}
		r.rest, r.chunks = data, r.chunks[1:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// sizedReader returns an error if r does not end after left more bytes.
type sizedReader struct {
	r    io.Reader
	left int64
}

func (r *sizedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.left -= int64(n)
	if r.left < 0 || err == io.EOF && r.left != 0 {
		return 0, segno.Errorf(segno.KindCorrupt, opReadLog, "", "its length is not the one that it lists")
	}
	return n, err
}

// lineFilter reads some lines of a transcript, as those of another session.
type lineFilter struct {
	in      *lineReader
	all     bool            // no line is left out
	keep    []lineRange     // else the ranges still to come
	session segno.SessionID // "" leaves the ids as they are

	err    error
	rest   []byte // of the current line
	buf    bytes.Buffer
	record record
}

// newLineFilter returns a reader of the lines keep, nil for all.
func newLineFilter(r io.Reader, keep []lineRange, session segno.SessionID) *lineFilter {
	return &lineFilter{in: newLineReader(r, 0), all: keep == nil, keep: keep, session: session}
}

func (f *lineFilter) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && f.err == nil {
		if len(f.rest) == 0 {
			f.err = f.next()
		}
		copied := copy(p[n:], f.rest)
		f.rest, n = f.rest[copied:], n+copied
	}
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, f.err
}

// next puts the next line that is kept into rest.
func (f *lineFilter) next() error {
	for l := range f.in.all() {
		if !f.keeps(l.number) {
			continue
		}
		f.rest = l.bytes
		if f.session == "" {
			return nil
		}
		_ = f.record.parse(l.bytes) // a line that is not a record has no session ids
		f.buf.Reset()
		err := f.record.writeAs(&f.buf, f.session)
		f.rest = f.buf.Bytes()
		return err
	}
	torn, err := f.in.end()
	switch {
	case err != nil:
		return err
	case torn > 0:
		return segno.Errorf(segno.KindCorrupt, opReadLog, "", "its last line is truncated")
	}
	return io.EOF
}

func (f *lineFilter) keeps(line int) bool {
	for len(f.keep) > 0 && f.keep[0].to < line {
		f.keep = f.keep[1:]
	}
	return f.all || len(f.keep) > 0 && f.keep[0].from <= line
}
