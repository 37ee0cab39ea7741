package kv

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
)

// A framed value is a version, a CRC-32C over key, version and content, and the content. The checksum covers
// the key, so that it also detects a value that was moved to another key. In a sealed store, the content
// sealed to its key replaces all of this.
const (
	frameVersion = 1
	frameHead    = 1 + 4
)

// coder encodes and decodes the values of a store.
type coder struct {
	*record.Squeezer
	seal *record.Sealer // nil if there is no key
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

// unframe returns the content of a value that was read under key. The content may alias val.
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
		return nil, damaged(key, errors.New("checksum mismatch in the value"))
	case val[0] > frameVersion:
		return nil, segno.NewError(segno.KindNewer, "read key", key, nil)
	}
	return val[frameHead:], nil
}

// decode decodes the fields of a value. list need not decode all of them.
func (q *coder) decode(key string, val []byte, list func(*fields)) error {
	content, err := q.unframe(key, val)
	if err != nil {
		return err
	}
	return decodeFields(key, content, list)
}

// decodePacked is decode for content that is compressed as a whole.
func (q *coder) decodePacked(key string, packed []byte, list func(*fields)) error {
	content, err := q.Unpack(packed)
	if err != nil {
		return damaged(key, err)
	}
	return decodeFields(key, content, list)
}

func decodeFields(key string, content []byte, list func(*fields)) error {
	f := &fields{b: content, decoding: true}
	if list(f); f.err != nil {
		return damaged(key, f.err)
	}
	return nil
}

// damaged returns the error for a value that differs from the one written under key.
func damaged(key string, err error) error {
	return segno.Errorf(segno.KindCorrupt, "read key", key, "the value is damaged: %w", err)
}

// missing returns the error for a value that other values require to exist.
func missing(key string) error {
	return segno.Errorf(segno.KindCorrupt, "read key", key, "the value is missing")
}

// fields encodes or decodes the fields of a value in order, so that one function lists the fields of a type
// for both. After the first damage, all further fields are zero. Encoding never changes the value that a
// field points to, because the store encodes cached values that other goroutines read.
type fields struct {
	b        []byte // the encoded bytes, or the bytes left to decode
	decoding bool
	err      error
}

func encodeFields(list func(*fields)) []byte {
	var f fields
	list(&f)
	return f.b
}

func (f *fields) damage() {
	f.b, f.err = nil, errors.New("the value cannot be decoded")
}

// next decodes the next n bytes.
func (f *fields) next(n uint64) []byte {
	if n > uint64(len(f.b)) {
		f.damage()
		return nil
	}
	p := f.b[:n:n]
	f.b = f.b[n:]
	return p
}

// number decodes v, which was read from the next n bytes.
func number[From, To int | int64 | uint32 | uint64](f *fields, v From, n int, to *To) {
	if *to = To(v); n <= 0 {
		f.damage()
		*to = 0
		return
	}
	f.b = f.b[n:]
}

// unsigned codes a number that is not negative, even if its type allows negative numbers.
func unsigned[T int | int64 | uint32 | uint64](f *fields, v *T) {
	if !f.decoding {
		f.b = binary.AppendUvarint(f.b, uint64(*v))
		return
	}
	x, n := binary.Uvarint(f.b)
	number(f, x, n, v)
}

func signed[T int | int64](f *fields, v *T) {
	if !f.decoding {
		f.b = binary.AppendVarint(f.b, int64(*v))
		return
	}
	x, n := binary.Varint(f.b)
	number(f, x, n, v)
}

// text codes a string or bytes after their length. Decoded bytes alias the value.
func text[T ~string | ~[]byte](f *fields, v *T) {
	n := uint64(len(*v))
	unsigned(f, &n)
	if f.decoding {
		*v = T(f.next(n))
	} else {
		f.b = append(f.b, *v...)
	}
}

// fixed codes len(p) bytes.
func (f *fields) fixed(p []byte) {
	if f.decoding {
		copy(p, f.next(uint64(len(p))))
	} else {
		f.b = append(f.b, p...)
	}
}

func octet[T ~byte](f *fields, v *T) {
	if !f.decoding {
		f.b = append(f.b, byte(*v))
	} else if p := f.next(1); p != nil {
		*v = T(p[0])
	}
}

// rest codes all remaining bytes of the value; the decoded bytes alias it.
func (f *fields) rest(p *[]byte) {
	if f.decoding {
		*p, f.b = f.b, nil
	} else {
		f.b = append(f.b, *p...)
	}
}

// items codes the number of items that follow. Each item has at least one byte.
func items[T any](f *fields, v *[]T) {
	n := uint64(len(*v))
	if unsigned(f, &n); !f.decoding {
		return
	}
	if n > uint64(len(f.b)) {
		f.damage()
	} else if n > 0 {
		*v = make([]T, n)
	}
}
