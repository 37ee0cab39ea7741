package secret

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// A utf16Decoder converts a text from UTF-16 to UTF-8, in pieces of any size.
type utf16Decoder struct {
	bigEndian bool
	pending   []byte // the beginning of a unit
	high      rune   // the first half of a surrogate pair
	out       []byte
}

// newUTF16Decoder returns a decoder if a file that begins with head is in UTF-16: it has a byte order
// mark, or every second byte of a long enough beginning is NUL, as in ASCII words. Otherwise it returns
// nil.
func newUTF16Decoder(head []byte) *utf16Decoder {
	const enough = 32
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return &utf16Decoder{}
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return &utf16Decoder{bigEndian: true}
	case len(head) < enough:
		return nil
	}
	var nul [2]int
	for i, c := range head[:enough] {
		if c == 0 {
			nul[i%2]++
		}
	}
	if nul[0]+nul[1] != enough/2 || nul[0] != 0 && nul[1] != 0 {
		return nil
	}
	return &utf16Decoder{bigEndian: nul[0] > 0}
}

// decode returns the next piece in UTF-8. It is valid until the next call.
func (d *utf16Decoder) decode(p []byte) []byte {
	d.out = d.out[:0]
	for _, c := range p {
		if d.pending = append(d.pending, c); len(d.pending) < 2 {
			continue
		}
		unit := rune(d.pending[1])<<8 | rune(d.pending[0])
		if d.bigEndian {
			unit = rune(d.pending[0])<<8 | rune(d.pending[1])
		}
		d.pending = d.pending[:0]
		switch {
		case d.high != 0:
			unit = utf16.DecodeRune(d.high, unit)
			d.high = 0
		case utf16.IsSurrogate(unit):
			d.high = unit
			continue
		}
		d.out = utf8.AppendRune(d.out, unit)
	}
	return d.out
}
