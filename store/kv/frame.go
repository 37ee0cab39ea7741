package kv

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// Each value is framed: a version, a CRC-32C over the key, the version and the
// content, and the content. The key is part of the sum, so that a value that
// stands under another's key is found out as well as one that is damaged. In a sealed
// store what is sealed to the key stands in place of all that.

const (
	frameVersion = 1
	frameHead    = 1 + 4
)

var errFrame = errors.New("the value does not match its checksum")

func checksum(key string, version byte, content []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(append([]byte(key), version), table), table, content)
}

// coder makes values of what is kept, and reads them.
type coder struct {
	*record.Squeezer
	seal *record.Sealer // nil without a key
}

func (q *coder) frame(key string, content []byte) []byte {
	if q.seal != nil {
		return q.seal.Seal(content, "value", key)
	}
	return frame(key, content)
}

// unframe returns the content of a value read under key; it may alias val.
func (q *coder) unframe(key string, val []byte) ([]byte, error) {
	if q.seal == nil {
		return unframe(key, val)
	}
	content, err := q.seal.Open(val, "value", key)
	if err != nil {
		return nil, damaged(key, err)
	}
	return content, nil
}

// frame returns content as it is kept under key.
func frame(key string, content []byte) []byte {
	val := make([]byte, frameHead, frameHead+len(content))
	val[0] = frameVersion
	binary.LittleEndian.PutUint32(val[1:], checksum(key, frameVersion, content))
	return append(val, content...)
}

// unframe returns the content of a value read under key; it aliases val.
func unframe(key string, val []byte) ([]byte, error) {
	switch {
	case len(val) < frameHead:
		return nil, damaged(key, errors.New("the value is cut short"))
	case binary.LittleEndian.Uint32(val[1:]) != checksum(key, val[0], val[frameHead:]):
		return nil, damaged(key, errFrame)
	case val[0] > frameVersion:
		return nil, segno.NewError(segno.KindNewer, "read key", key, nil)
	}
	return val[frameHead:], nil
}

// damaged is the error for what is there under key and is not what was written.
func damaged(key string, err error) error {
	return segno.Errorf(segno.KindCorrupt, "read key", key, "the value is damaged: %w", err)
}

// missing is the error for a value that others say must be there.
func missing(key string) error {
	return segno.Errorf(segno.KindCorrupt, "read key", key, "the value is missing")
}

// writer writes the fields of a value in their order.
type writer struct{ b []byte }

func (w *writer) uint(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)    { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) bytes(p []byte) { w.uint(uint64(len(p))); w.b = append(w.b, p...) }
func (w *writer) text(s string)  { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) fixed(p []byte) { w.b = append(w.b, p...) }
func (w *writer) byte(c byte)    { w.b = append(w.b, c) }

// reader reads them back. The first damage ends it: what follows is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) damage() {
	if r.err == nil {
		r.err = errors.New("the value does not decode")
	}
	r.b = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.damage()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.damage()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fixed(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.damage()
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) bytes() []byte { return r.fixed(r.uint()) }
func (r *reader) text() string  { return string(r.bytes()) }

func (r *reader) byte() byte {
	if p := r.fixed(1); len(p) == 1 {
		return p[0]
	}
	return 0
}

// count reads how many items follow, each of at least one byte.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.damage()
		return 0
	}
	return int(n)
}
