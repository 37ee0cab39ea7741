package acp

import "bytes"

// maxDepth is how deep JSON may be nested, as in encoding/json.
const maxDepth = 10000

// valid reports whether text is one JSON value, as json.Valid does, which takes several
// times as long: that was most of the CPU time of a small message.
func valid(text []byte) bool {
	end := validValue(text, space(text, 0), 0)
	return end >= 0 && space(text, end) == len(text)
}

// validValue returns the place behind the value that begins at i, -1 if there is none.
func validValue(b []byte, i, depth int) int {
	if i >= len(b) || depth > maxDepth {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return validString(b, i)
	case c == '{', c == '[':
		return validList(b, i, depth+1)
	case c == '-' || isDigit(c):
		return validNumber(b, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(b[i:], []byte(word)) {
			return i + len(word)
		}
	}
	return -1
}

// validList is validValue for an object or an array.
func validList(b []byte, i, depth int) int {
	object, end := b[i] == '{', b[i]+2 // in ASCII
	if i = space(b, i+1); i < len(b) && b[i] == end {
		if depth > maxDepth {
			return -1
		}
		return i + 1
	}
	for {
		if object {
			if i >= len(b) || b[i] != '"' {
				return -1
			}
			if i = validString(b, i); i < 0 {
				return -1
			}
			if i = space(b, i); i >= len(b) || b[i] != ':' {
				return -1
			}
			i = space(b, i+1)
		}
		if i = validValue(b, i, depth); i < 0 {
			return -1
		}
		if i = space(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case end:
			return i + 1
		case ',':
			i = space(b, i+1)
		default:
			return -1
		}
	}
}

// validString is validValue for a string.
func validString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i++; i >= len(b) {
				return -1
			}
			if b[i] == 'u' {
				for range 4 {
					if i++; i >= len(b) || !isHex(b[i]) {
						return -1
					}
				}
			} else if bytes.IndexByte([]byte(`"\/bfnrt`), b[i]) < 0 {
				return -1
			}
		}
	}
	return -1
}

// validNumber is validValue for a number.
func validNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digits(b, i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits returns the place behind the digits at i, -1 if there are none.
func digits(b []byte, i int) int {
	from := i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
