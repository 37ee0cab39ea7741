// Package gitignore matches paths against ignore files exactly as git does.
//
// [Parse] reads one ignore file. [List.Match] gives the verdict of that file alone,
// which is all that a file with one place in a tree needs. [Decide] combines the
// files of a repository: it walks from the repository's top down to a path, lets a
// deeper file overrule one above it, and never includes again what lies below an
// ignored directory.
//
// The package reads no files and starts no program. It matches the case of letters;
// git's core.ignorecase lives in a configuration that may belong to an untrusted
// repository and is not read. Matching a path takes time proportional to the product
// of the lengths of pattern and path, whatever the pattern.
//
// The semantics are those of gitignore(5) as git implements them, including what the
// manual leaves open. The tests compare verdicts with the git command.
package gitignore

import (
	"bytes"
	"strings"
)

// Verdict is what an ignore file wants done with a path.
type Verdict int

// The verdicts.
const (
	None    Verdict = iota // no pattern matches
	Ignored                // the last pattern that matches ignores the path
	Kept                   // the last pattern that matches begins with !
)

// List is the patterns of one ignore file. The nil List has none.
type List struct {
	patterns []pattern
}

// Parse reads an ignore file. Every text is one: a line that git cannot use matches
// nothing.
func Parse(text []byte) *List {
	l := &List{}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for n := 1; len(text) > 0; n++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		// A carriage return is part of the line's end, but only one and only there.
		raw := strings.TrimSuffix(string(line), "\r")
		// git keeps a pattern as a C string, which a zero byte ends.
		raw, _, _ = strings.Cut(raw, "\x00")
		l.patterns = append(l.patterns, parsePattern(trimSpaces(raw), n))
	}
	return l
}

// trimSpaces removes trailing spaces, except those that a backslash escapes.
func trimSpaces(s string) string {
	end := 0 // what comes after it is spaces
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

// Len is the number of patterns in l.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.patterns)
}

// Match returns what the last pattern that matches a path wants, and the number of
// its line, counted from 1. The path is relative to the directory that holds the
// ignore file. Match does not look at the directories above the path: see [Decide].
func (l *List) Match(rel string, isDir bool) (Verdict, int) {
	if l == nil {
		return None, 0
	}
	for i := len(l.patterns) - 1; i >= 0; i-- {
		p := &l.patterns[i]
		if p.dirOnly && !isDir || !p.matches(rel) {
			continue
		}
		if p.negated {
			return Kept, p.line
		}
		return Ignored, p.line
	}
	return None, 0
}

// Decision is a verdict and the pattern that led to it.
type Decision struct {
	Verdict Verdict
	// Dir is the directory of the ignore file, with -1 as Shared; or Shared is the
	// index of the file in [Rules.Shared].
	Dir    string
	Shared int
	Line   int
}

// Rules are the ignore files of one repository.
type Rules struct {
	// In returns the ignore file of a directory, nil for none. The path is relative
	// to the repository's top, which is "".
	In func(dir string) *List
	// Shared are ignore files for the whole repository, the most important first.
	// All of them yield to the files that In returns.
	Shared []*List
}

// Decide returns git's decision about a path, slash-separated and relative to the
// repository's top. A path below an ignored directory is ignored by the pattern that
// ignores the directory.
func (r *Rules) Decide(rel string, isDir bool) Decision {
	for end := 0; ; {
		next := strings.IndexByte(rel[end:], '/')
		if next < 0 {
			return r.one(rel, isDir)
		}
		end += next
		if d := r.one(rel[:end], true); d.Verdict == Ignored {
			return d
		}
		end++
	}
}

// one decides about a path whose parents are not ignored.
func (r *Rules) one(rel string, isDir bool) Decision {
	for end := len(rel); end > 0; {
		end = strings.LastIndexByte(rel[:end], '/')
		dir := rel[:max(end, 0)]
		if v, line := r.In(dir).Match(rel[end+1:], isDir); v != None {
			return Decision{Verdict: v, Dir: dir, Shared: -1, Line: line}
		}
	}
	for i, l := range r.Shared {
		if v, line := l.Match(rel, isDir); v != None {
			return Decision{Verdict: v, Shared: i, Line: line}
		}
	}
	return Decision{Shared: -1}
}
