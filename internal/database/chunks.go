package database

import (
	"bytes"
	"context"
	"hash/fnv"
	"io"

	"github.com/dalsegno/segno"
)

// The sizes of the objects into which a text is split.
const (
	chunkBytes    = 16 << 10 // on average
	maxChunkBytes = 1 << 20
	maxGroup      = 1024 // hashes in a group
)

// chunkWriter stores a text of lines in objects. A boundary depends only on the line before it, so a change
// of some lines changes only the objects that contain them.
type chunkWriter struct {
	ctx     context.Context
	batch   segno.Batch
	recent  *recent
	pending []byte // lines of the present chunk, and the beginning of the next line
	scanned int    // the end of the last complete line in pending
	group   pageList
	groups  pageList
	lines   int64
	bytes   int64
	failure error // the error of the store
}

// Write implements io.Writer.
func (w *chunkWriter) Write(p []byte) (int, error) {
	w.bytes += int64(len(p))
	w.pending = append(w.pending, p...)
	for w.failure == nil {
		i := bytes.IndexByte(w.pending[w.scanned:], '\n')
		if i < 0 {
			break
		}
		line := w.pending[w.scanned : w.scanned+i+1]
		w.scanned += len(line)
		w.lines++
		if w.scanned >= maxChunkBytes || endsChunk(line) {
			w.flush(w.scanned)
		}
	}
	for w.failure == nil && len(w.pending) > maxChunkBytes { // a part of a long line
		w.flush(maxChunkBytes)
	}
	return len(p), w.failure
}

// endsChunk reports whether a chunk ends with a line. The probability is in proportion to its length.
func endsChunk(line []byte) bool {
	h := fnv.New64a()
	_, _ = h.Write(line)
	sum := h.Sum64()
	sum ^= sum >> 32 // the low bits of FNV are well distributed
	return sum%chunkBytes < uint64(len(line))
}

// flush stores the first n bytes of pending.
func (w *chunkWriter) flush(n int) {
	h, err := w.batch.Put(w.ctx, w.pending[:n])
	if err != nil {
		w.failure = err
		return
	}
	w.pending = w.pending[n:] // not moved: the rest of a row may have hundreds of megabytes
	w.scanned = max(w.scanned-n, 0)
	w.group = append(w.group, h)
	if h[0] == 0 || len(w.group) == maxGroup {
		w.endGroup()
	}
}

func (w *chunkWriter) endGroup() {
	h, err := w.recent.put(w.ctx, w.batch, w.group.encode())
	w.group, w.groups = nil, append(w.groups, h)
	if err != nil {
		w.failure = err
	}
}

// finish stores the rest and returns the name of the whole text. The name of an empty text is zero.
func (w *chunkWriter) finish() (segno.Hash, error) {
	if len(w.pending) > 0 && w.failure == nil {
		w.flush(len(w.pending))
	}
	if len(w.group) > 0 && w.failure == nil {
		w.endGroup()
	}
	if w.failure != nil || len(w.groups) == 0 {
		return segno.Hash{}, w.failure
	}
	return w.recent.put(w.ctx, w.batch, w.groups.encode())
}

// chunkReader reads a text that a chunkWriter stored.
type chunkReader struct {
	ctx     context.Context
	objects getter
	chunks  pageList
	rest    []byte
}

func newChunkReader(ctx context.Context, objects getter, name segno.Hash) (*chunkReader, error) {
	chunks, err := readPages(ctx, objects, name)
	return &chunkReader{ctx: ctx, objects: objects, chunks: chunks}, err
}

// Read implements io.Reader.
func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		data, err := r.objects.Get(r.ctx, r.chunks[0])
		if err != nil {
			return 0, segno.NewError(segno.KindCorrupt, "restore database", r.chunks[0].String(), err)
		}
		r.rest, r.chunks = data, r.chunks[1:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
