package transcript

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth is how deep JSON may nest before a line counts as broken.
const maxDepth = 10_000

// scanner steps over JSON without decoding it. It accepts exactly what a JSON
// parser accepts, except that strings may hold bytes that are not UTF-8: the
// agent replaces those while reading and keeps the line.
type scanner struct {
	open []byte // the brackets around the present place
}

// syntaxError is where a line stops being JSON.
type syntaxError int

func (e syntaxError) Error() string { return fmt.Sprintf("not JSON from byte %d on", int(e)) }

// value returns the place after the JSON value that begins at or after b[i].
func (s *scanner) value(b []byte, i int) (int, error) {
	s.open = s.open[:0]
	var ok bool
	for {
		i = space(b, i)
		if i, ok = s.atom(b, i); !ok {
			return i, syntaxError(i)
		}
		if i, ok = s.closing(b, i); !ok {
			return i, syntaxError(i)
		}
		if len(s.open) == 0 {
			return i, nil
		}
	}
}

// atom steps over a scalar, or over the brackets and keys in front of one. After
// an empty object or array it stands on the closing bracket.
func (s *scanner) atom(b []byte, i int) (int, bool) {
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			return text(b, i+1)
		case c == '{' || c == '[':
			if len(s.open) == maxDepth {
				return i, false
			}
			s.open = append(s.open, c)
			i = space(b, i+1)
			if i < len(b) && b[i] == c+2 { // "}" and "]" are two after their openers
				return i, true
			}
			if c == '{' {
				var ok bool
				if i, ok = key(b, i); !ok {
					return i, false
				}
			}
			i = space(b, i)
		case c == '-' || c >= '0' && c <= '9':
			return number(b, i)
		case c == 't':
			return literal(b, i, "true")
		case c == 'f':
			return literal(b, i, "false")
		case c == 'n':
			return literal(b, i, "null")
		default:
			return i, false
		}
	}
	return i, false
}

// closing steps over closing brackets and one comma: to the next value, or out
// of the outermost bracket.
func (s *scanner) closing(b []byte, i int) (int, bool) {
	for len(s.open) > 0 {
		i = space(b, i)
		if i >= len(b) {
			return i, false
		}
		top := s.open[len(s.open)-1]
		switch b[i] {
		case top + 2:
			s.open = s.open[:len(s.open)-1]
			i++
		case ',':
			if top == '{' {
				return key(b, space(b, i+1))
			}
			return i + 1, true
		default:
			return i, false
		}
	}
	return i, true
}

// key steps over an object's key and its colon.
func key(b []byte, i int) (int, bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	i, ok := text(b, i+1)
	if !ok {
		return i, false
	}
	if i = space(b, i); i >= len(b) || b[i] != ':' {
		return i, false
	}
	return i + 1, true
}

// text returns the place after the closing quote of the string whose content
// begins at b[i].
func text(b []byte, i int) (int, bool) {
	for {
		for i+8 <= len(b) {
			if found := special(binary.LittleEndian.Uint64(b[i:])); found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c == '\\':
			if i++; i < len(b) && shortEscape(b[i]) {
				i++
				continue
			}
			var ok bool
			if i, ok = longEscape(b, i); !ok {
				return i, false
			}
		case c < ' ':
			return i, false
		default:
			i++
		}
	}
}

// special marks, by its highest bit, the first byte of eight that is a quote, a
// backslash or a control character; marks behind it may be wrong.
func special(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^ones*'"', w^ones*'\\'
	return (((w - ones*' ') &^ w) | ((quote - ones) &^ quote) | ((slash - ones) &^ slash)) & tops
}

// shortEscape reports whether c may follow a backslash alone.
func shortEscape(c byte) bool {
	const low = 1<<'"' | 1<<'/'
	const high = 1<<('\\'-64) | 1<<('b'-64) | 1<<('f'-64) | 1<<('n'-64) | 1<<('r'-64) | 1<<('t'-64)
	if c < 64 {
		return low>>c&1 != 0
	}
	return uint64(high)>>(c-64)&1 != 0
}

// longEscape steps over the u and the four digits after a backslash.
func longEscape(b []byte, i int) (int, bool) {
	if len(b)-i < 5 || b[i] != 'u' {
		return i, false
	}
	for _, c := range b[i+1 : i+5] {
		if !isHex(c) {
			return i, false
		}
	}
	return i + 5, true
}

func number(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	start := i
	if i = digits(b, i); i == start || b[start] == '0' && i > start+1 {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = digits(b, start); i == start {
			return i, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = digits(b, i); i == start {
			return i, false
		}
	}
	return i, true
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

func literal(b []byte, i int, word string) (int, bool) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, false
	}
	return i + len(word), true
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}
