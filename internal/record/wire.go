// Package record is the binary encoding of checkpoints, entries, threads and the other nouns of the
// root package. All binary stores use it. A record consists of tagged fields, is compressed with a
// dictionary of texts that are frequent in agents' sessions, and is sealed if the store has a key.
// Every later version of this package reads the records of this one.
package record

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/dalsegno/segno"
)

// A record is a sequence of fields, each a varint of tag<<1|form and a value:
// form 0 is a varint, form 1 a length and that many bytes. Fields that are zero
// are left out, and a reader skips tags that it does not know, so that a field
// can be added without a new schema. Tags are never reused.
//
// Unlike JSON the encoding preserves strings that are not UTF-8, and a list of checkpoints
// decodes in a fraction of the time.

const (
	formNumber = 0
	formBytes  = 1
)

// ErrDamaged is the error about bytes that are not a record.
var ErrDamaged = errors.New("the record does not decode")

// encoder writes a record.
type encoder struct {
	b        []byte
	hasOther bool // the commit has another record: its entries or its checkpoint
}

func (e *encoder) number(tag uint64, v int64) {
	if v != 0 {
		e.b = binary.AppendUvarint(e.b, tag<<1|formNumber)
		e.b = binary.AppendVarint(e.b, v)
	}
}

func (e *encoder) flag(tag uint64, v bool) {
	if v {
		e.number(tag, 1)
	}
}

func (e *encoder) text(tag uint64, s string) {
	if s != "" {
		e.b = binary.AppendUvarint(e.b, tag<<1|formBytes)
		e.b = binary.AppendUvarint(e.b, uint64(len(s)))
		e.b = append(e.b, s...)
	}
}

func (e *encoder) bytes(tag uint64, p []byte) {
	if len(p) > 0 {
		e.b = binary.AppendUvarint(e.b, tag<<1|formBytes)
		e.b = binary.AppendUvarint(e.b, uint64(len(p)))
		e.b = append(e.b, p...)
	}
}

func (e *encoder) hash(tag uint64, h segno.Hash) {
	if !h.IsZero() {
		e.bytes(tag, h[:])
	}
}

func (e *encoder) time(tag uint64, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	p, err := t.MarshalBinary()
	if err != nil {
		return err
	}
	e.bytes(tag, p)
	return nil
}

// part writes a record within the record, also if it is empty.
func (e *encoder) part(tag uint64, p []byte) {
	e.b = binary.AppendUvarint(e.b, tag<<1|formBytes)
	e.b = binary.AppendUvarint(e.b, uint64(len(p)))
	e.b = append(e.b, p...)
}

// A whole record begins with a checksum field: the CRC-32C of the field's key and of all bytes after
// the field, in little endian. There are two keys. hasOtherKey means that the commit has another record,
// too: its entries or its checkpoint. Records of older versions have no checksum, and begin with a key
// of at most oldKeys.
const (
	oldKeys     = 21<<1 | formBytes
	hasOtherKey = 62<<1 | formBytes
	sumKey      = 63<<1 | formBytes
	sumLength   = 1 + 1 + crc32.Size
)

// HasOther reports whether the commit of a record has another one: the checkpoint's record if this one
// has the entries, and vice versa. A store that does not find the other record knows that it was lost.
// HasOther returns false for records without a checksum.
func HasOther(record []byte) bool { return len(record) >= sumLength && record[0] == hasOtherKey }

// record returns the record with its checksum.
func (e *encoder) record() []byte {
	key := byte(sumKey)
	if e.hasOther {
		key = hasOtherKey
	}
	out := append(make([]byte, 0, sumLength+len(e.b)), key, crc32.Size)
	out = binary.LittleEndian.AppendUint32(out, sumOf(key, e.b))
	return append(out, e.b...)
}

func sumOf(key byte, rest []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum([]byte{key}, table), table, rest)
}

// decodeChecked is decode for a whole record.
func decodeChecked(record []byte) decoder {
	says := func(key byte) bool {
		return len(record) >= sumLength && record[1] == crc32.Size && binary.LittleEndian.Uint32(record[2:]) == sumOf(key, record[sumLength:])
	}
	switch {
	case len(record) == 0:
		return decode(record) // an older version wrote a record without fields
	case record[0] == sumKey || record[0] == hasOtherKey:
		if says(record[0]) {
			return decode(record[sumLength:])
		}
	case record[0] <= oldKeys && !says(sumKey) && !says(hasOtherKey): // otherwise the key of the checksum is damaged
		return decode(record)
	}
	return decoder{err: ErrDamaged}
}

// decoder reads a record field by field. It stops at the first damage, which err then is.
type decoder struct {
	rest []byte
	err  error

	tag    uint64
	number int64
	bytes  []byte // aliases the record
}

func decode(record []byte) decoder { return decoder{rest: record} }

// next steps to the next field and reports whether there is one.
func (d *decoder) next() bool {
	if d.err != nil || len(d.rest) == 0 {
		return false
	}
	key, n := binary.Uvarint(d.rest)
	if n <= 0 {
		return d.damaged()
	}
	if key>>1 == 0 {
		return d.damaged() // no field has tag 0: these are zero bytes
	}
	d.rest, d.tag, d.number, d.bytes = d.rest[n:], key>>1, 0, nil
	if key&1 == formNumber {
		v, n := binary.Varint(d.rest)
		if n <= 0 {
			return d.damaged()
		}
		d.rest, d.number = d.rest[n:], v
		return true
	}
	size, n := binary.Uvarint(d.rest)
	if n <= 0 || size > uint64(len(d.rest)-n) {
		return d.damaged()
	}
	d.bytes, d.rest = d.rest[n:n+int(size)], d.rest[n+int(size):]
	return true
}

func (d *decoder) damaged() bool {
	d.err = ErrDamaged
	return false
}

func (d *decoder) flag() bool   { return d.number != 0 }
func (d *decoder) text() string { return string(d.bytes) }

func (d *decoder) hash() (h segno.Hash) {
	if copy(h[:], d.bytes) != len(h) || len(d.bytes) != len(h) {
		d.damaged()
	}
	return h
}

func (d *decoder) time() (t time.Time) {
	if err := t.UnmarshalBinary(d.bytes); err != nil {
		d.damaged()
	}
	return t
}

// clone returns a copy of bytes that alias the record.
func (d *decoder) clone() []byte { return append([]byte(nil), d.bytes...) }
