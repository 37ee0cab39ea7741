package workspace

import (
	"path/filepath"
	"strings"
)

// maxGitConfig is the size up to which a git configuration is read. Each branch that
// tracks another takes a section of some eighty bytes.
const maxGitConfig = 1 << 20

// setting is one assignment in a git configuration.
type setting struct {
	section string // lower case; with a dot at the end if there is a subsection
	key     string // lower case
	value   string
	from    int // where the assignment begins in the text
	to      int // where it ends, before the newline
}

// settings returns the assignments of a git configuration, up to its end or the first
// line that git would reject. It does not read included files.
func settings(text []byte) (out []setting) {
	p := configParser{text: string(text)}
	if strings.HasPrefix(p.text, "\ufeff") {
		p.at = len("\ufeff")
	}
	for {
		p.skip(" \t\r\n")
		switch c := p.peek(); {
		case p.at >= len(p.text):
			return out
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			if !p.header() {
				return out
			}
		default:
			s, ok := p.assignment()
			if !ok {
				return out
			}
			out = append(out, s)
		}
	}
}

// configParser goes through a git configuration.
type configParser struct {
	text    string
	at      int
	section string
}

// peek returns the next byte, 0 at the end.
func (p *configParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *configParser) skip(set string) {
	for p.at < len(p.text) && strings.IndexByte(set, p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *configParser) skipLine() {
	if n := strings.IndexByte(p.text[p.at:], '\n'); n >= 0 {
		p.at += n
	} else {
		p.at = len(p.text)
	}
}

// header reads [section] or [section "subsection"].
func (p *configParser) header() bool {
	p.at++
	from := p.at
	for isKeyByte(p.peek()) || p.peek() == '.' {
		p.at++
	}
	p.section = strings.ToLower(p.text[from:p.at])
	p.skip(" \t")
	if p.peek() == '"' {
		p.section += "."
		for p.at++; p.peek() != '"'; p.at++ {
			if p.peek() == '\\' {
				p.at++
			}
			if c := p.peek(); c == 0 || c == '\n' {
				return false
			}
		}
		p.at++
	}
	if p.peek() != ']' {
		return false
	}
	p.at++
	return true
}

func isKeyByte(c byte) bool {
	return c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// assignment reads key = value, or a key alone.
func (p *configParser) assignment() (setting, bool) {
	s := setting{section: p.section, from: p.at}
	for isKeyByte(p.peek()) {
		p.at++
	}
	if p.at == s.from {
		return s, false
	}
	s.key = strings.ToLower(p.text[s.from:p.at])
	p.skip(" \t")
	ok := true
	switch p.peek() {
	case '=':
		p.at++
		s.value, ok = p.value()
	case '#', ';':
		p.skipLine()
	case '\r', '\n', 0:
	default:
		ok = false
	}
	s.to = p.at
	return s, ok
}

// value reads the rest of an assignment: quotes, escapes and continued lines are
// resolved, a comment and white space around it are dropped.
func (p *configParser) value() (string, bool) {
	var out strings.Builder
	keep := 0 // up to where the value may not be trimmed
	quoted := false
	for p.skip(" \t"); p.at < len(p.text) && p.peek() != '\n'; p.at++ {
		switch c := p.peek(); {
		case c == '"':
			quoted = !quoted
			keep = out.Len()
		case c == '\\':
			p.at++
			if strings.HasPrefix(p.text[min(p.at, len(p.text)):], "\r\n") {
				p.at++
			}
			if p.peek() == '\n' {
				continue
			}
			at := strings.IndexByte(`nbt\"`, p.peek())
			if at < 0 || p.peek() == 0 {
				return "", false
			}
			out.WriteByte("\n\b\t\\\""[at])
			keep = out.Len()
		case !quoted && (c == '#' || c == ';'):
			p.skipLine()
			return trimTo(out.String(), keep), true
		default:
			out.WriteByte(c)
			if quoted {
				keep = out.Len()
			}
		}
	}
	return trimTo(out.String(), keep), !quoted
}

// trimTo drops white space at the end of s, but not before keep.
func trimTo(s string, keep int) string {
	return s[:keep] + strings.TrimRight(s[keep:], " \t\r")
}

// isWorktree reports whether s sets core.worktree.
func (s *setting) isWorktree() bool { return s.section == "core" && s.key == "worktree" }

// worktreeOf returns core.worktree of a git configuration.
func worktreeOf(text []byte) (tree string, ok bool) {
	for _, s := range settings(text) {
		if s.isWorktree() {
			tree, ok = s.value, true
		}
	}
	return tree, ok
}

// editConfig replaces each assignment that change returns another text for. One that
// becomes empty loses its line.
func editConfig(text []byte, change func(s *setting) (string, bool)) []byte {
	var out []byte
	done := 0
	for _, s := range settings(text) {
		next, ok := change(&s)
		if !ok {
			continue
		}
		out = append(append(out, text[done:s.from]...), next...)
		if done = s.to; next != "" {
			continue
		}
		line := len(out) - len(strings.TrimRight(string(out), " \t"))
		if at := len(out) - line; (at == 0 || out[at-1] == '\n') && done < len(text) {
			out, done = out[:at], done+1
		}
	}
	return append(out, text[done:]...)
}

// quoteConfig writes a value so that git reads it back as it is.
func quoteConfig(value string) string {
	if strings.Trim(value, " \t\r") == value && !strings.ContainsAny(value, "#;\"\\\n\b\t") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\b", `\b`, "\t", `\t`).Replace(value) + `"`
}

// dropWorktree drops the settings that make a repository bare or assign it to a directory.
func dropWorktree(s *setting) (string, bool) {
	return "", s.section == "core" && (s.key == "worktree" || s.key == "bare")
}

// moveWorktree returns the edit of core.worktree in the copy of the git directory was: a
// path in the tree becomes one in the fork, any other is dropped.
func (f *fork) moveWorktree(was string) func(s *setting) (string, bool) {
	return func(s *setting) (string, bool) {
		if !s.isWorktree() {
			return "", false
		}
		path, ok := f.inFork(resolve(was, s.value))
		if !ok {
			return "", true
		}
		if _, inTree := inside(f.from.root, was); inTree && !filepath.IsAbs(s.value) {
			return "", false
		}
		return "worktree = " + quoteConfig(path), true
	}
}
