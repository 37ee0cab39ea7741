// Package gitignore matches paths against ignore files exactly as git does.
//
// [Parse] reads one ignore file. [List.Match] returns the verdict of that file alone, which is
// enough for a file that applies to a whole tree. [Rules.Decide] combines the files of a
// repository: it walks from the repository's top down to a path. A deeper file overrides one above
// it, and every path below an ignored directory is ignored.
//
// The package reads no files and starts no program. It is case-sensitive. It does not read git's
// core.ignorecase, because the configuration may belong to an untrusted repository. Matching a path
// takes time proportional to the product of the lengths of pattern and path, whatever the pattern.
//
// The semantics are those of gitignore(5) as git implements them, even where the manual does not
// specify them. The tests compare verdicts with the git command.
package gitignore

import (
	"bytes"
	"slices"
	"strings"
)

// Verdict is the result of matching a path.
type Verdict int

const (
	None    Verdict = iota // no pattern matches
	Ignored                // the last pattern that matches ignores the path
	Kept                   // the last pattern that matches begins with !
)

// List has the patterns of one ignore file. The nil List has none.
type List struct {
	patterns []pattern
}

// Parse reads an ignore file. Every text is valid: a line that git cannot use matches nothing.
func Parse(text []byte) *List {
	l := &List{}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		// One carriage return at the end of a line is part of the line ending. Any other is part of
		// the pattern.
		raw := strings.TrimSuffix(string(line), "\r")
		// git keeps a pattern as a C string, so a zero byte ends it.
		raw, _, _ = strings.Cut(raw, "\x00")
		l.patterns = append(l.patterns, parsePattern(trimSpaces(raw)))
	}
	return l
}

// trimSpaces removes trailing spaces, except those that a backslash escapes.
func trimSpaces(s string) string {
	end := 0 // only spaces follow
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == ' ':
			continue
		case s[i] == '\\':
			if i++; i == len(s) {
				return s
			}
		}
		end = i + 1
	}
	return s[:end]
}

// Match returns the verdict of the last pattern that matches a path. The path is relative to the
// directory of the ignore file. Match does not look at the directories above the path: see
// [Rules.Decide].
func (l *List) Match(rel string, isDir bool) Verdict {
	if l == nil {
		return None
	}
	for i := range slices.Backward(l.patterns) {
		p := &l.patterns[i]
		switch {
		case p.dirOnly && !isDir || !p.matches(rel):
		case p.negated:
			return Kept
		default:
			return Ignored
		}
	}
	return None
}

// Rules are the ignore files of one repository.
type Rules struct {
	// In returns the ignore file of a directory, or nil. The path is relative to the repository's
	// top, which is "".
	In func(dir string) *List
	// Shared are ignore files for the whole repository, the most important first. The files that In
	// returns override all of them.
	Shared []*List
}

// Decide returns git's verdict about a path, slash-separated and relative to the
// repository's top. A path below an ignored directory is ignored.
func (r *Rules) Decide(rel string, isDir bool) Verdict {
	for end := 0; ; end++ {
		next := strings.IndexByte(rel[end:], '/')
		if next < 0 {
			return r.match(rel, isDir)
		}
		end += next
		if r.match(rel[:end], true) == Ignored {
			return Ignored
		}
	}
}

// match returns the verdict about a path. The directories above it must not be ignored.
func (r *Rules) match(rel string, isDir bool) Verdict {
	for end := len(rel); end > 0; {
		end = strings.LastIndexByte(rel[:end], '/')
		if v := r.In(rel[:max(end, 0)]).Match(rel[end+1:], isDir); v != None {
			return v
		}
	}
	for _, l := range r.Shared {
		if v := l.Match(rel, isDir); v != None {
			return v
		}
	}
	return None
}
