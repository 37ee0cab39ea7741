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
	pairs     surrogates
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
		d.out = d.pairs.append(d.out, unit)
	}
	return d.out
}

// surrogates joins the halves of surrogate pairs.
type surrogates struct {
	high rune // the first half of a pair, or 0
}

// append appends a unit of UTF-16 to a text in UTF-8. The first half of a pair waits for the second one. A half
// without the other becomes U+FFFD, and the unit after it stays.
func (s *surrogates) append(text []byte, unit rune) []byte {
	if r := utf16.DecodeRune(s.high, unit); r != utf8.RuneError {
		s.high = 0
		return utf8.AppendRune(text, r)
	}
	text = s.end(text)
	if utf16.IsSurrogate(unit) && unit < secondHalves {
		s.high = unit
		return text
	}
	return utf8.AppendRune(text, unit)
}

// secondHalves is the first of the second halves.
const secondHalves = 0xdc00

// end appends what a half without the other becomes, if one waits.
func (s *surrogates) end(text []byte) []byte {
	if s.high == 0 {
		return text
	}
	s.high = 0
	return utf8.AppendRune(text, utf8.RuneError)
}
