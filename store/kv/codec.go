package kv

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// A value in a frame is a version, a CRC-32C over key, version and content, and the content. The
// key is part of the checksum, so that a value that was moved to another key is detected as well
// as one that was changed. In a sealed store the content sealed to its key replaces all that.
const (
	frameVersion = 1
	frameHead    = 1 + 4
)

// coder encodes and decodes the values of a store.
type coder struct {
	*record.Squeezer
	seal *record.Sealer // nil without a key
}

func checksum(key string, version byte, content []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(append([]byte(key), version), table), table, content)
}

// frame returns the value that holds content under key.
func (q *coder) frame(key string, content []byte) []byte {
	if q.seal != nil {
		return q.seal.Seal(content, "value", key)
	}
	val := make([]byte, frameHead, frameHead+len(content))
	val[0] = frameVersion
	binary.LittleEndian.PutUint32(val[1:], checksum(key, frameVersion, content))
	return append(val, content...)
}

// unframe returns the content of a value read under key. It may alias val.
func (q *coder) unframe(key string, val []byte) ([]byte, error) {
	if q.seal != nil {
		content, err := q.seal.Open(val, "value", key)
		if err != nil {
			return nil, damaged(key, err)
		}
		return content, nil
	}
	switch {
	case len(val) < frameHead:
		return nil, damaged(key, errors.New("the value is truncated"))
	case binary.LittleEndian.Uint32(val[1:]) != checksum(key, val[0], val[frameHead:]):
		return nil, damaged(key, errors.New("the value does not match its checksum"))
	case val[0] > frameVersion:
		return nil, segno.NewError(segno.KindNewer, "read key", key, nil)
	}
	return val[frameHead:], nil
}

// decode reads the fields of a value with read, which must consume them all or leave the rest.
func (q *coder) decode(key string, val []byte, read func(r *reader)) error {
	content, err := q.unframe(key, val)
	if err != nil {
		return err
	}
	return readFields(key, content, read)
}

// decodePacked is decode for content that is compressed as a whole.
func (q *coder) decodePacked(key string, packed []byte, read func(r *reader)) error {
	fields, err := q.Unpack(packed)
	if err != nil {
		return damaged(key, err)
	}
	return readFields(key, fields, read)
}

func readFields(key string, fields []byte, read func(r *reader)) error {
	r := reader{b: fields}
	if read(&r); r.err != nil {
		return damaged(key, r.err)
	}
	return nil
}

// damaged is the error for a value that differs from the value that was written under key.
func damaged(key string, err error) error {
	return segno.Errorf(segno.KindCorrupt, "read key", key, "the value is damaged: %w", err)
}

// missing is the error for a value that other values require to exist.
func missing(key string) error {
	return segno.Errorf(segno.KindCorrupt, "read key", key, "the value is missing")
}

// writer appends the fields of a value.
type writer struct{ b []byte }

func (w *writer) uint(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)    { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) bytes(p []byte) { w.uint(uint64(len(p))); w.b = append(w.b, p...) }
func (w *writer) text(s string)  { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) fixed(p []byte) { w.b = append(w.b, p...) }
func (w *writer) byte(c byte)    { w.b = append(w.b, c) }

// reader reads the fields in the same order. After the first damage all further fields are zero.
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

// varint advances past a number of n bytes.
func varint[N int64 | uint64](r *reader, v N, n int) N {
	if n <= 0 {
		r.damage()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	return varint(r, v, n)
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	return varint(r, v, n)
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

func (r *reader) hash() (h segno.Hash) {
	copy(h[:], r.fixed(uint64(len(h))))
	return h
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
