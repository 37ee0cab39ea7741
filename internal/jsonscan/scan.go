package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// maxDepth is how deep objects and arrays may nest, as in encoding/json.
const maxDepth = 10_000

// The functions below step over the token that begins at b[i]. They return the offset behind the token and
// true, or the offset of the error and false.

// scanValue steps over a value. depth is how many objects and arrays are around it. If the caller trusts the input to be
// valid, the texts of strings are not validated.
func scanValue(b []byte, i, depth int, trust bool) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch c := b[i]; c {
	case '"':
		return scanText(b, i+1, trust)
	case '{', '[':
		return scanList(b, i, depth, trust, nil)
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
				return i + len(word), true
			}
		}
		return i, false
	default:
		return scanNumber(b, i)
	}
}

// scanList steps over an object or an array. Unless visit is nil, scanList calls it for each
// member or element. key is the text between the quotes of a member's key.
func scanList(b []byte, i, depth int, trust bool, visit func(key, value Span)) (int, bool) {
	open := b[i]
	closing := open + 2 // '}' is '{' + 2 and ']' is '[' + 2 in ASCII
	if depth == maxDepth {
		return i, false
	}
	if i = SkipSpace(b, i+1); i < len(b) && b[i] == closing {
		return i + 1, true
	}
	for {
		var key Span
		var ok bool
		if open == '{' {
			if key, i, ok = scanKey(b, i, trust); !ok {
				return i, false
			}
		}
		from := i
		if i, ok = scanValue(b, i, depth+1, trust); !ok {
			return i, false
		}
		if visit != nil {
			visit(key, Span{from, i})
		}
		if i = SkipSpace(b, i); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case closing:
			return i + 1, true
		case ',':
			i = SkipSpace(b, i+1)
		default:
			return i, false
		}
	}
}

// scanKey steps over a key, its colon and the white space behind the colon. key is the text
// between the quotes.
func scanKey(b []byte, i int, trust bool) (key Span, next int, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return key, i, false
	}
	key.From = i + 1
	if i, ok = scanText(b, i+1, trust); !ok {
		return key, i, false
	}
	key.To = i - 1
	if i = SkipSpace(b, i); i >= len(b) || b[i] != ':' {
		return key, i, false
	}
	return key, SkipSpace(b, i+1), true
}

func scanText(b []byte, i int, trust bool) (int, bool) {
	if trust {
		return skipString(b, i)
	}
	return scanString(b, i)
}

// skipString is scanString for a text that is known to be valid. It looks only for the closing quote, which is the
// first quote behind an even number of backslashes.
func skipString(b []byte, i int) (int, bool) {
	for start := i; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b), false
		}
		slash := i + n
		for slash > start && b[slash-1] == '\\' {
			slash--
		}
		if n, i = i+n-slash, i+n+1; n%2 == 0 {
			return i, true
		}
	}
}

// scanString steps over a string's text, which begins at b[i], and its closing quote. Most strings are shorter than 40
// bytes, such as keys and UUIDs, so scanString looks for their end in eight bytes at a time.
func scanString(b []byte, i int) (int, bool) {
	for short := i + 40; i < short && i+8 <= len(b); i += 8 {
		found := special(binary.LittleEndian.Uint64(b[i:]))
		if found == 0 {
			continue
		}
		if i += bits.TrailingZeros64(found) / 8; b[i] == '"' {
			return i + 1, true
		}
		break
	}
	return scanLongString(b, i)
}

// scanLongString is scanString for a long string. Most bytes of a transcript are in long strings, which have an escape for
// each line of a text or a program. A branch for each word that may have an escape would be mispredicted too often, so
// scanLongString collects the special bytes of 64 bytes first.
func scanLongString(b []byte, i int) (int, bool) {
	for i+blockSize <= len(b) {
		marks, next := specialsOf(b[i:i+blockSize]), blockSize
		for marks != 0 {
			at := bits.TrailingZeros64(marks)
			if b[i+at] != '\\' {
				return endOfString(b, i+at)
			}
			end := at + 2
			if i+end > len(b) || !isSimpleEscape(b[i+at+1]) {
				n := escapeLength(b[i+at+1:])
				if n == 0 {
					return i + at + 1, false
				}
				end = at + 1 + n
			}
			next = max(next, end)
			marks &= ^uint64(0) << end // no bits remain if end is 64 or more
		}
		i += next
	}
	for i < len(b) {
		switch c := b[i]; {
		case c == '\\':
			n := escapeLength(b[i+1:])
			if n == 0 {
				return i + 1, false
			}
			i += 1 + n
		case c == '"' || c < ' ':
			return endOfString(b, i)
		default:
			i++
		}
	}
	return i, false
}

// endOfString returns the offset behind the quote b[i], or false for another byte.
func endOfString(b []byte, i int) (int, bool) {
	if b[i] == '"' {
		return i + 1, true
	}
	return i, false
}

// blockSize is the number of bytes that specialsOf looks at.
const blockSize = 64

// specialsOf sets the bits of those of 64 bytes that are special.
func specialsOf(b []byte) (marks uint64) {
	_ = b[blockSize-1]
	m0, m1 := special(binary.LittleEndian.Uint64(b)), special(binary.LittleEndian.Uint64(b[8:]))
	m2, m3 := special(binary.LittleEndian.Uint64(b[16:])), special(binary.LittleEndian.Uint64(b[24:]))
	m4, m5 := special(binary.LittleEndian.Uint64(b[32:])), special(binary.LittleEndian.Uint64(b[40:]))
	m6, m7 := special(binary.LittleEndian.Uint64(b[48:])), special(binary.LittleEndian.Uint64(b[56:]))
	if m0|m1|m2|m3|m4|m5|m6|m7 == 0 {
		return 0
	}
	// The multiplication collects the highest bits of eight bytes in the highest byte.
	const collect = 0x0002040810204081
	return m0*collect>>56 | m1*collect>>56<<8 | m2*collect>>56<<16 | m3*collect>>56<<24 |
		m4*collect>>56<<32 | m5*collect>>56<<40 | m6*collect>>56<<48 | m7*collect>>56<<56
}

// special sets the highest bit of each of eight bytes that is a quote, a backslash or a control character, and no other
// bit. The quote and the control characters are those bytes below 0x80 that are below 0x21 once their second lowest bit is
// flipped. The additions carry nothing into the next byte.
func special(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	low := w &^ tops
	other := (low ^ ones*0x02) + ones*(0x80-0x21) // the highest bit of a byte that is neither a quote nor a control character
	noSlash := (low ^ ones*'\\') + ones*0x7f
	return ^(other & noSlash) &^ w & tops
}

// escapeLength returns the length of the escape behind a backslash, or 0 if the escape is malformed.
func escapeLength(b []byte) int {
	if len(b) > 0 && isSimpleEscape(b[0]) {
		return 1
	}
	if len(b) >= 5 && b[0] == 'u' && isHex(b[1]) && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) {
		return 5
	}
	return 0
}

// isSimpleEscape reports whether c is a whole escape behind a backslash.
func isSimpleEscape(c byte) bool {
	const low, high uint64 = 1<<'"' | 1<<'/', 1<<('\\'-64) | 1<<('b'-64) | 1<<('f'-64) | 1<<('n'-64) | 1<<('r'-64) | 1<<('t'-64)
	if c < 64 {
		return low>>c&1 != 0
	}
	return high>>(c-64)&1 != 0
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func scanNumber(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	start := i
	if i = skipDigits(b, i); i == start || b[start] == '0' && i > start+1 {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = skipDigits(b, start); i == start {
			return i, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = skipDigits(b, i); i == start {
			return i, false
		}
	}
	return i, true
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}
