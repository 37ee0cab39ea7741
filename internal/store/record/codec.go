// Package record encodes checkpoints, entries, threads and the other types of the root package in a binary form. All
// binary stores use it. A record is a protocol buffers message. It is compressed with a dictionary of texts that are
// frequent in agents' sessions, and sealed if the store has a key. docs/format.md specifies the messages. Every later
// version of this package can read the records of this version.
package record

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"google.golang.org/protobuf/encoding/protowire"
)

// ErrDamaged is the error for bytes that are not a valid record.
var ErrDamaged = errors.New("the record does not decode")

// codec encodes or decodes a message. For each message, one function lists its fields for both directions, in the order
// of their numbers. An encoder leaves out zero fields. A decoder skips unknown fields, so a later version may add
// fields. Numbers are never reused.
//
// If the fields are in order, as in every record that this package wrote, the functions decode all of them in one pass.
// For other messages [codec.decode] repeats the pass.
type codec struct {
	encoding bool
	out      []byte // the encoded fields

	in     []byte           // the bytes after the present field
	number protowire.Number // number of the present field; 0 at the end
	form   protowire.Type
	varint uint64
	bytes  []byte // aliases the record
	err    error
}

// next reads the next field.
func (c *codec) next() {
	c.number = 0
	if len(c.in) == 0 || c.err != nil {
		return
	}
	number, form, n := protowire.ConsumeTag(c.in)
	if n < 0 {
		c.damaged()
		return
	}
	rest := c.in[n:]
	switch form {
	case protowire.VarintType:
		c.varint, n = protowire.ConsumeVarint(rest)
	case protowire.BytesType:
		c.bytes, n = protowire.ConsumeBytes(rest)
	default:
		n = protowire.ConsumeFieldValue(number, form, rest)
	}
	if n < 0 {
		c.damaged()
		return
	}
	c.number, c.form, c.in = number, form, rest[n:]
}

func (c *codec) damaged() { c.number, c.err = 0, ErrDamaged }

// is reports whether the present field has this number and wire type.
func (c *codec) is(n protowire.Number, form protowire.Type) bool {
	return c.number == n && c.form == form
}

// decode decodes the message in c.in with a function that tries each field once. It calls the function at
// least once, because a message without fields must be allocated, too.
func (c *codec) decode(fields func()) {
	c.next()
	for more := true; more; more = c.number != 0 {
		before := len(c.in)
		if fields(); len(c.in) == before {
			c.next() // this version does not know the field
		}
	}
}

// message encodes or decodes an embedded message. It encodes the message if isSet is true, even if all its fields are
// zero.
func (c *codec) message(n protowire.Number, isSet bool, fields func()) {
	switch {
	case c.encoding && isSet:
		c.out = protowire.AppendTag(c.out, n, protowire.BytesType)
		start := len(c.out)
		fields()
		var size [binary.MaxVarintLen64]byte
		c.out = slices.Insert(c.out, start, protowire.AppendVarint(size[:0], uint64(len(c.out)-start))...)
	case c.is(n, protowire.BytesType):
		outer := c.in
		c.in = c.bytes
		c.decode(fields)
		c.in = outer
		c.next()
	}
}

// text encodes or decodes any bytes, because paths and messages need not be valid UTF-8.
func text[T ~string](c *codec, n protowire.Number, p *T) {
	switch {
	case c.encoding && *p != "":
		c.out = protowire.AppendString(protowire.AppendTag(c.out, n, protowire.BytesType), string(*p))
	case c.is(n, protowire.BytesType):
		*p = T(c.bytes)
		c.next()
	}
}

// alias encodes or decodes bytes. Decoded bytes alias the record.
func (c *codec) alias(n protowire.Number, p *[]byte) {
	switch {
	case c.encoding && len(*p) > 0:
		c.out = protowire.AppendBytes(protowire.AppendTag(c.out, n, protowire.BytesType), *p)
	case c.is(n, protowire.BytesType):
		*p = slices.Clip(c.bytes)
		c.next()
	}
}

// hash encodes or decodes 32 bytes. A field of another length counts as damage.
func (c *codec) hash(n protowire.Number, p *segno.Hash) {
	switch {
	case c.encoding && !p.IsZero():
		c.out = protowire.AppendBytes(protowire.AppendTag(c.out, n, protowire.BytesType), p[:])
	case !c.is(n, protowire.BytesType):
	case copy(p[:], c.bytes) == len(c.bytes) && len(c.bytes) == len(p):
		c.next()
	default:
		c.damaged()
	}
}

// number encodes or decodes a sint64 of protocol buffers, which is also short for small negative
// numbers.
func number[T ~int | ~int64 | ~uint64](c *codec, n protowire.Number, p *T) {
	switch {
	case c.encoding && *p != 0:
		c.out = protowire.AppendVarint(protowire.AppendTag(c.out, n, protowire.VarintType), protowire.EncodeZigZag(int64(*p)))
	case c.is(n, protowire.VarintType):
		*p = T(protowire.DecodeZigZag(c.varint))
		c.next()
	}
}

func (c *codec) flag(n protowire.Number, p *bool) {
	switch {
	case c.encoding && *p:
		c.out = protowire.AppendVarint(protowire.AppendTag(c.out, n, protowire.VarintType), 1)
	case c.is(n, protowire.VarintType):
		*p = c.varint != 0
		c.next()
	}
}

// time encodes or decodes a message with the seconds since 1970, the nanoseconds of the second, and the seconds east of
// UTC. The zero time is left out.
func (c *codec) time(n protowire.Number, t *time.Time) {
	isSet := c.encoding && !t.IsZero() || c.is(n, protowire.BytesType)
	var seconds int64
	var nanos, zone int
	if isSet && c.encoding {
		seconds, nanos = t.Unix(), t.Nanosecond()
		_, zone = t.Zone()
	}
	c.message(n, isSet, func() {
		number(c, 1, &seconds)
		number(c, 2, &nanos)
		number(c, 3, &zone)
	})
	if !isSet || c.encoding {
		return
	}
	*t = time.Unix(seconds, int64(nanos))
	switch _, local := t.Zone(); {
	case zone == 0:
		*t = t.UTC()
	case zone != local:
		*t = t.In(time.FixedZone("", zone))
	}
}

// repeated encodes each item of a list as a message, or decodes such messages.
func repeated[T any](c *codec, n protowire.Number, list *[]T, fields func(*T)) {
	for i := range *list {
		c.message(n, c.encoding, func() { fields(&(*list)[i]) })
	}
	for !c.encoding && c.is(n, protowire.BytesType) {
		var item T
		*list = append(*list, item)
		c.message(n, false, func() { fields(&(*list)[len(*list)-1]) })
	}
}

// texts encodes or decodes a list of texts, including empty ones.
func (c *codec) texts(n protowire.Number, list *[]string) {
	for i := range *list {
		if c.encoding {
			c.out = protowire.AppendString(protowire.AppendTag(c.out, n, protowire.BytesType), (*list)[i])
		}
	}
	for !c.encoding && c.is(n, protowire.BytesType) {
		*list = append(*list, string(c.bytes))
		c.next()
	}
}

// pairs encodes a map as one message per key, sorted by key.
func pairs[V ~string](c *codec, n protowire.Number, m *map[string]V) {
	if c.encoding {
		for _, key := range slices.Sorted(maps.Keys(*m)) {
			value := (*m)[key]
			c.message(n, true, func() { text(c, 1, &key); text(c, 2, &value) })
		}
	}
	for !c.encoding && c.is(n, protowire.BytesType) {
		var key string
		var value V
		c.message(n, false, func() { text(c, 1, &key); text(c, 2, &value) })
		if *m == nil {
			*m = map[string]V{}
		}
		(*m)[key] = value
	}
}

// allocated returns *p, after it has set a nil *p to a new value.
func allocated[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// A record is a message that begins with a fixed32 checksum: the CRC-32C of the checksum's tag and of all bytes after
// the checksum. The field has one of two tags. pairedTag means that the commit also has another record: its entries or
// its checkpoint.
const (
	pairedTag = "\xf5\x03" // 62
	aloneTag  = "\xfd\x03" // 63
	sumLength = len(aloneTag) + crc32.Size
)

// HasOther reports whether the commit of a record has two records: one for the checkpoint and one for the entries. If a
// store then does not find the other record, that record was lost.
func HasOther(record []byte) bool { return hasTag(record, pairedTag) }

func hasTag(record []byte, tag string) bool {
	return len(record) >= sumLength && string(record[:len(tag)]) == tag
}

// encoder returns a codec that encodes the message of a record. It has room for the checksum.
func encoder() codec { return codec{encoding: true, out: make([]byte, sumLength, 256)} }

// record returns the record of an encoded message.
func (c *codec) record(hasOther bool) []byte {
	tag := aloneTag
	if hasOther {
		tag = pairedTag
	}
	copy(c.out, tag)
	binary.LittleEndian.PutUint32(c.out[len(tag):], sumOf(c.out))
	return c.out
}

func sumOf(record []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(record[:len(aloneTag)], table), table, record[sumLength:])
}

// decodeRecord verifies a record and decodes its message.
func (c *codec) decodeRecord(record []byte, fields func()) error {
	if !HasOther(record) && !hasTag(record, aloneTag) || binary.LittleEndian.Uint32(record[len(aloneTag):]) != sumOf(record) {
		return ErrDamaged
	}
	c.in = record[sumLength:]
	c.decode(fields)
	return c.err
}

// encode encodes any record. Checkpoints and entries have separate functions, because they are frequent. Those
// functions avoid the calls through fields, which move the codec to the heap.
func encode[T any](x *T, fields func(*codec, *T)) []byte {
	c := encoder()
	fields(&c, x)
	return c.record(false)
}

// decode is the counterpart of encode. It sets the fields of x.
func decode[T any](x T, record []byte, fields func(*codec, *T)) (T, error) {
	var c codec
	err := c.decodeRecord(record, func() { fields(&c, &x) })
	return x, err
}
