package gitignore

import "strings"

// class reads a bracket expression, which begins s. It returns the bytes that the
// expression matches and its length, or nil if git would not accept it.
func class(s string) (*[256]bool, int) {
	set := new([256]bool)
	i := 1
	negated := i < len(s) && (s[i] == '!' || s[i] == '^')
	if negated {
		i++
	}
	var before byte // where a range may begin; 0 is nowhere
	for first := true; first || i >= len(s) || s[i] != ']'; first = false {
		if i >= len(s) {
			return nil, 0
		}
		c := s[i]
		switch {
		case c == '\\':
			if i++; i >= len(s) {
				return nil, 0
			}
			c = s[i]
			set[c] = true
		case c == '-' && before != 0 && i+1 < len(s) && s[i+1] != ']':
			i++
			if s[i] == '\\' {
				if i++; i >= len(s) {
					return nil, 0
				}
			}
			for b := int(before); b <= int(s[i]); b++ {
				set[b] = true
			}
			c = 0 // no range begins where another ends
		case strings.HasPrefix(s[i:], "[:"):
			end := strings.IndexByte(s[i+2:], ']')
			if end < 0 {
				return nil, 0
			}
			name, ok := strings.CutSuffix(s[i+2:i+2+end], ":")
			if !ok {
				set['['] = true // a bracket like any other byte
				break
			}
			member := named(name)
			if member == nil {
				return nil, 0
			}
			for b := range set {
				set[b] = set[b] || b < 0x80 && member(byte(b))
			}
			i += 2 + end
			c = 0
		default:
			set[c] = true
		}
		before = c
		i++
	}
	for b := range set {
		set[b] = set[b] != negated
	}
	set['/'] = false
	return set, i + 1
}

// named returns the membership test of a POSIX character class, for ASCII.
func named(name string) func(byte) bool {
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	lower := func(c byte) bool { return 'a' <= c && c <= 'z' }
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	graph := func(c byte) bool { return ' ' < c && c < 0x7f }
	switch name {
	case "alnum":
		return func(c byte) bool { return digit(c) || lower(c) || upper(c) }
	case "alpha":
		return func(c byte) bool { return lower(c) || upper(c) }
	case "blank":
		return func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		return func(c byte) bool { return c < ' ' || c == 0x7f }
	case "digit":
		return digit
	case "graph":
		return graph
	case "lower":
		return lower
	case "print":
		return func(c byte) bool { return c == ' ' || graph(c) }
	case "punct":
		return func(c byte) bool { return graph(c) && !digit(c) && !lower(c) && !upper(c) }
	case "space":
		// git's own isspace leaves out vertical tab and form feed.
		return func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
	case "upper":
		return upper
	case "xdigit":
		return func(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
	}
	return nil
}
