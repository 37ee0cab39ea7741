package tool

import (
	"fmt"
	"path"
	"strings"
)

// pattern is what a name may match: any of its alternatives, each a list of
// patterns for the names between slashes.
type pattern [][]string

const maxAlternatives = 100

// parsePattern reads a pattern: as [path.Match] has it within a name, ** for any
// number of directories, {a,b} for alternatives.
func parsePattern(text string) (pattern, error) {
	all, ok := alternatives(text, nil)
	if !ok {
		return nil, fmt.Errorf("pattern %s: more than %d alternatives: use fewer braces", text, maxAlternatives)
	}
	var p pattern
	for _, one := range all {
		segments := strings.Split(one, "/")
		for _, s := range segments {
			if _, err := path.Match(s, ""); err != nil {
				return nil, fmt.Errorf("pattern %s: %q is not closed or ends in a backslash", text, s)
			}
		}
		p = append(p, segments)
	}
	return p, nil
}

// alternatives appends what a pattern with braces stands for. Braces that are not
// closed, or have no comma, stand for themselves.
func alternatives(text string, all []string) ([]string, bool) {
	open, commas, end := braces(text)
	if end < 0 {
		return append(all, text), len(all) < maxAlternatives
	}
	from := open + 1
	for _, to := range append(commas, end) {
		var ok bool
		if all, ok = alternatives(text[:open]+text[from:to]+text[end+1:], all); !ok {
			return all, false
		}
		from = to + 1
	}
	return all, true
}

// braces finds the first braces with a comma: where they open, their own commas,
// and where they end, -1 if there are none.
func braces(text string) (open int, commas []int, end int) {
	for open = 0; open < len(text); open++ {
		switch text[open] {
		case '\\':
			open++
		case '{':
			if commas, end = inBraces(text, open); end >= 0 && len(commas) > 0 {
				return open, commas, end
			}
		}
	}
	return 0, nil, -1
}

func inBraces(text string, open int) (commas []int, end int) {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '}':
			if depth--; depth == 0 {
				return commas, i
			}
		}
	}
	return nil, -1
}

func (p pattern) match(name string) bool {
	var names []string
	if name != "" {
		names = strings.Split(name, "/")
	}
	for _, segments := range p {
		if matchSegments(segments, names) {
			return true
		}
	}
	return false
}

// matchSegments tries the last ** with one name more whenever the rest does not
// match. Earlier ones need no second try: what they would take, the last can.
func matchSegments(segments, names []string) bool {
	s, n, retry, taken := 0, 0, -1, 0
	for n < len(names) {
		if s < len(segments) && segments[s] == "**" {
			retry, taken = s, n
			s++
			continue
		}
		if s < len(segments) {
			if ok, _ := path.Match(segments[s], names[n]); ok {
				s++
				n++
				continue
			}
		}
		if retry < 0 {
			return false
		}
		taken++
		s, n = retry+1, taken
	}
	for s < len(segments) && segments[s] == "**" {
		s++
	}
	return s == len(segments)
}
