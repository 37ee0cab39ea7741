package gitignore

import (
	"fmt"
	"regexp"
	"strings"
)

// pattern is one line of an ignore file.
type pattern struct {
	negated bool // the line begins with !
	dirOnly bool // the line ends with a slash
	// baseOnly means that the pattern has no slash. It is then compared with the last name
	// of a path.
	baseOnly bool
	// prefix is the necessary beginning of a path, or of its last name. git compares this part
	// without looking for wildcards.
	prefix string
	suffix string         // the necessary end of a path: a cheap test before glob
	glob   *regexp.Regexp // must match the rest after prefix; nil matches the empty string
	broken bool           // git does not accept the pattern, so it matches nothing
}

// wildcards are the bytes at which git begins to look for wildcards.
const wildcards = `*?[\`

// parsePattern parses a line without its line ending and trailing spaces.
func parsePattern(s string) pattern {
	var p pattern
	s, p.negated = strings.CutPrefix(s, "!")
	s, p.dirOnly = strings.CutSuffix(s, "/")
	p.baseOnly = !strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	n := strings.IndexAny(s, wildcards)
	if n < 0 {
		p.prefix = s
		return p
	}
	p.prefix, s = s[:n], s[n:]
	expr, ok := translate(s)
	if !ok {
		p.broken = true
		return p
	}
	if !strings.Contains(s, "[") { // **/a also matches a, so the slash is not part of the suffix
		p.suffix = strings.TrimPrefix(s[strings.LastIndexAny(s, wildcards)+1:], "/")
	}
	p.glob = regexp.MustCompile(expr)
	return p
}

// matches compares p with a path relative to the directory of p's file.
func (p *pattern) matches(rel string) bool {
	if p.baseOnly {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	rest, ok := strings.CutPrefix(rel, p.prefix)
	if p.glob == nil {
		return ok && !p.broken && rest == ""
	}
	return ok && strings.HasSuffix(rest, p.suffix) && p.glob.MatchString(bytesAsRunes(rest))
}

// bytesAsRunes returns a string that has a rune for each byte of s, because git matches
// bytes and package regexp matches runes.
func bytesAsRunes(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// translate converts a glob to a regular expression with the semantics of git's wildmatch and its
// flag WM_PATHNAME. ok is false if git does not accept the glob.
func translate(s string) (expr string, ok bool) {
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	for i := 0; i < len(s); {
		switch s[i] {
		case '?':
			out.WriteString(`[^/]`)
			i++
		case '*':
			end := i
			for end < len(s) && s[end] == '*' {
				end++
			}
			stars, skip := asterisks(s, i, end)
			out.WriteString(stars)
			i = end + skip
		case '[':
			class, n, ok := bracket(s[i:])
			if !ok {
				return "", false
			}
			out.WriteString(class)
			i += n
		case '\\':
			if i++; i == len(s) {
				return "", false
			}
			fallthrough
		default:
			fmt.Fprintf(&out, `\x{%x}`, s[i])
			i++
		}
	}
	return out.String() + `\z`, true
}

// asterisks translates the asterisks s[from:to], and returns how many bytes after them are part of
// the translation. Two or more asterisks cross directories only where they are a whole component.
// git compares the part of a pattern before its first wildcard separately. So ** directly after
// that part counts as a whole component: foo** and foo**/bar cross directories.
func asterisks(s string, from, to int) (expr string, skip int) {
	begins := from == 0 || s[from-1] == '/'
	rest := s[to:]
	switch {
	case to-from < 2 || !begins:
	case strings.HasPrefix(rest, "/"):
		return `(?:.*/)?`, 1
	case rest == "" || strings.HasPrefix(rest, `\/`):
		return `.*`, 0
	}
	return `[^/]*`, 0
}

// bracket translates the bracket expression that s begins with, and returns its length. ok
// is false if git does not accept it. It never matches a slash.
func bracket(s string) (expr string, length int, ok bool) {
	p := &bracketParser{s: s, at: 1, previous: -1}
	negated := p.at < len(s) && (s[p.at] == '!' || s[p.at] == '^')
	if negated {
		p.at++
	}
	for first := true; first || p.at >= len(s) || s[p.at] != ']'; first = false {
		if !p.item() {
			return "", 0, false
		}
	}
	switch {
	case negated:
		expr = `[^/` + p.set.String() + `]`
	case p.set.Len() == 0: // it matches no byte: [/] or a range whose end is below its beginning
		expr = `[^\x{0}-\x{ff}]`
	default:
		expr = `[` + p.set.String() + `]`
	}
	return expr, p.at + 1, true
}

// bracketParser translates the items of a bracket expression.
type bracketParser struct {
	s        string
	at       int             // the next byte of s
	set      strings.Builder // the items so far
	previous int             // the byte with which a range may begin, or -1
}

// item translates a byte, a range or a character class. It returns false if git does not
// accept it.
func (p *bracketParser) item() bool {
	if name, n := className(p.s[min(p.at, len(p.s)):]); n > 0 {
		ranges := classRanges(name)
		for i := 0; i < len(ranges); i += 2 {
			p.add(ranges[i], ranges[i+1])
		}
		p.at, p.previous = p.at+n, -1
		return ranges != ""
	}
	isRange := p.previous >= 0 && p.at+1 < len(p.s) && p.s[p.at] == '-' && p.s[p.at+1] != ']'
	if isRange {
		p.at++
	}
	if p.at < len(p.s) && p.s[p.at] == '\\' {
		p.at++
	}
	if p.at >= len(p.s) {
		return false
	}
	c := p.s[p.at]
	p.at++
	if isRange {
		p.add(byte(p.previous), c)
		p.previous = -1 // a range cannot begin where another one ends
		return true
	}
	p.add(c, c)
	p.previous = int(c)
	return true
}

// add adds a range of bytes, except the slash.
func (p *bracketParser) add(low, high byte) {
	if low < '/' && '/' <= high {
		fmt.Fprintf(&p.set, `\x{%x}-\x{%x}`, low, '/'-1)
	}
	if low <= '/' && '/' <= high {
		low = '/' + 1
	}
	if low <= high {
		fmt.Fprintf(&p.set, `\x{%x}-\x{%x}`, low, high)
	}
}

// className returns the name in the [:name:] at the beginning of s, and the length of [:name:]. The
// length is 0 if s does not begin with one.
func className(s string) (name string, length int) {
	rest, isClass := strings.CutPrefix(s, "[:")
	rest, _, isClosed := strings.Cut(rest, "]")
	name, hasColon := strings.CutSuffix(rest, ":")
	if !isClass || !isClosed || !hasColon {
		return "", 0
	}
	return name, len("[::]") + len(name)
}

// classRanges returns the ranges of bytes in a POSIX character class, as pairs of the first and the
// last byte. It returns "" if there is no such class. As in git, the class space lacks vertical tab
// and form feed.
func classRanges(name string) string {
	return map[string]string{
		"alnum": "09AZaz", "alpha": "AZaz", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f",
		"digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~",
		"space": "\t\n\r\r  ", "upper": "AZ", "xdigit": "09AFaf",
	}[name]
}
