package workspace

import (
	"path"
	"strings"
)

// patterns are the lines of a .segnoignore.
type patterns []pattern

type pattern struct {
	parts   []string // of the path, split at slashes; "**" stands for any number
	dirOnly bool
	keep    bool // the line begins with !
}

// What patterns say of a path.
const (
	matchNone = iota
	matchIgnored
	matchKept
)

// parsePatterns reads a .segnoignore. Every text is one; a line that can match
// nothing is left out.
func parsePatterns(text []byte) (out patterns) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRight(line, " \t")
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var p pattern
		if line[0] == '!' {
			p.keep, line = true, line[1:]
		}
		line = strings.TrimPrefix(line, `\`) // \# and \! are names
		if strings.HasSuffix(line, "/") {
			p.dirOnly, line = true, strings.TrimSuffix(line, "/")
		}
		anchored := strings.Contains(line, "/")
		p.parts = strings.Split(strings.TrimPrefix(line, "/"), "/")
		if !anchored {
			p.parts = append([]string{"**"}, p.parts...)
		}
		if p.valid() {
			out = append(out, p)
		}
	}
	return out
}

func (p *pattern) valid() bool {
	for _, part := range p.parts {
		if _, err := path.Match(part, ""); err != nil || part == "" {
			return false
		}
	}
	return true
}

// match says what the last line that matches dir/name wants.
func (ps patterns) match(dir, name string, isDir bool) int {
	if len(ps) == 0 {
		return matchNone
	}
	parts := strings.Split(join(dir, name), "/")
	for i := len(ps) - 1; i >= 0; i-- {
		p := &ps[i]
		if p.dirOnly && !isDir || !matchParts(p.parts, parts) {
			continue
		}
		if p.keep {
			return matchKept
		}
		return matchIgnored
	}
	return matchNone
}

// matchParts matches a path against a pattern, both split at slashes. It goes back
// to the last "**" only, so that its time is bounded by the product of the lengths.
// A final "**" stands for at least one name.
func matchParts(pattern, parts []string) bool {
	p, s := 0, 0
	star, mark := -1, 0
	for s < len(parts) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, mark = p, s
			p++
		case p < len(pattern) && matchPart(pattern[p], parts[s]):
			p++
			s++
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	return p == len(pattern)
}

func matchPart(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
