// Package jsonscan finds values in a line of JSON without decoding the rest of it. It
// allocates nothing and returns places in the line, so that a caller can replace one value
// and keep every other byte as it was.
//
// The functions accept exactly the texts that encoding/json accepts, including strings with
// bytes that are not UTF-8. Like encoding/json, they accept a nesting depth of at most 10,000.
// They never read behind the input. To decode a whole document, use encoding/json.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Span is a part of a line, from the offset of its first byte to the offset behind its last
// one. The zero Span stands for an absent value.
type Span struct{ From, To int }

// IsZero reports whether the value is absent.
func (s Span) IsZero() bool { return s.To == 0 }

// Of returns the bytes of line that s spans, or nil if s is zero.
func (s Span) Of(line []byte) []byte {
	if s.IsZero() {
		return nil
	}
	return line[s.From:s.To]
}

// Valid reports whether data is one JSON value with nothing but white space around it. It
// takes a fraction of the time of json.Valid.
func Valid(data []byte) bool {
	end, ok := scanValue(data, SkipSpace(data, 0), 0, false)
	return ok && SkipSpace(data, end) == len(data)
}

// Members calls visit for each member of the object that begins at data[at], in order. key
// is the raw text of the key, with its escapes. end is the offset behind the object. If the
// object is not well-formed, ok is false and end is the offset of the error. Members has
// then called visit for the members before the error.
func Members(data []byte, at int, visit func(key []byte, value Span)) (end int, ok bool) {
	if at >= len(data) || data[at] != '{' {
		return at, false
	}
	return scanList(data, at, 0, false, func(key, value Span) { visit(data[key.From:key.To], value) })
}

// Elements calls visit for each element of the array that begins at data[at], in order. It
// does not call visit if no array begins there.
func Elements(data []byte, at int, visit func(Span)) { elements(data, at, false, visit) }

// ElementsOfValid is Elements for data that Members or Valid has accepted. It takes a fraction of the time.
func ElementsOfValid(data []byte, at int, visit func(Span)) { elements(data, at, true, visit) }

func elements(data []byte, at int, trust bool, visit func(Span)) {
	if at < len(data) && data[at] == '[' {
		scanList(data, at, 0, trust, func(_, value Span) { visit(value) })
	}
}

// Find returns the span of the value at a path of keys inside the object at in. The span is
// zero if there is no such value. If several members have the same key, the last one
// counts, as in encoding/json and in JavaScript.
func Find(data []byte, in Span, path ...string) Span { return find(data, in, false, path) }

// FindInValid is Find for data that Members or Valid has accepted. It takes a fraction of the time.
func FindInValid(data []byte, in Span, path ...string) Span { return find(data, in, true, path) }

func find(data []byte, in Span, trust bool, path []string) Span {
	for _, want := range path {
		found := Span{}
		if in.From < in.To && data[in.From] == '{' {
			scanList(data[:in.To], in.From, 0, trust, func(key, value Span) {
				if KeyIs(data[key.From:key.To], want) {
					found = value
				}
			})
		}
		in = found
	}
	return in
}

// KeyIs reports whether key, as [Members] passes it, is the text want.
func KeyIs(key []byte, want string) bool {
	if bytes.IndexByte(key, '\\') >= 0 {
		return Unescape(key) == want
	}
	return string(key) == want
}

// RawText returns the bytes between the quotes of a string value, escapes included. It
// returns nil for a value of another type.
func RawText(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// Text decodes a string value. It returns "" for a value of another type.
func Text(value []byte) string { return Unescape(RawText(value)) }

// Unescape decodes the escapes in the result of [RawText]. It replaces bytes that are not UTF-8 by U+FFFD.
func Unescape(raw []byte) string {
	text := string(raw)
	if strings.IndexByte(text, '\\') < 0 && utf8.ValidString(text) {
		return text
	}
	var out string
	if json.Unmarshal([]byte(`"`+text+`"`), &out) != nil {
		return text
	}
	return out
}

// SkipSpace returns the place of the first byte at or behind i that is not white space.
func SkipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}
