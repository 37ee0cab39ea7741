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

// scanString steps over a string's text, which begins at b[i], and its closing quote. Most
// bytes of a transcript are in long strings, so it looks at eight bytes at a time, and at 32
// behind 24 bytes without an escape.
func scanString(b []byte, i int) (int, bool) {
	for {
		from := i
		for i+8 <= len(b) {
			if found := special(binary.LittleEndian.Uint64(b[i:])); found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			for i += 8; i >= from+24 && i+32 <= len(b); i += 32 {
				w := b[i : i+32 : i+32]
				if special(binary.LittleEndian.Uint64(w))|special(binary.LittleEndian.Uint64(w[8:]))|
					special(binary.LittleEndian.Uint64(w[16:]))|special(binary.LittleEndian.Uint64(w[24:])) != 0 {
					break
				}
			}
		}
		for i < len(b) && b[i] == '\\' {
			n := escapeLength(b[i+1:])
			if n == 0 {
				return i + 1, false
			}
			i += 1 + n
		}
		if i >= len(b) {
			return i, false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ':
			return i, false
		default:
			i++
		}
	}
}

// special sets the highest bit of the first of eight bytes that is a quote, a backslash or a
// control character. Marks behind the first one may be wrong. The quote and the control characters
// are those bytes that are below 0x21 once their second lowest bit is flipped.
func special(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quoteOrControl, slash := (w^ones*0x02)-ones*0x21, (w^ones*'\\')-ones
	return (quoteOrControl | slash) &^ w & tops
}

// escapeLength returns the length of the escape behind a backslash, or 0 if the escape is malformed.
func escapeLength(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case b[0] == 'n', b[0] == '"', b[0] == '\\', b[0] == '/', b[0] == 'b', b[0] == 'f', b[0] == 'r', b[0] == 't':
		return 1
	case len(b) >= 5 && b[0] == 'u' && isHex(b[1]) && isHex(b[2]) && isHex(b[3]) && isHex(b[4]):
		return 5
	}
	return 0
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
