package gitignore

import "strings"

// pattern is one line of an ignore file.
type pattern struct {
	line    int
	negated bool // the line begins with !
	dirOnly bool // the line ends with a slash
	// baseOnly says that the pattern has no slash, so that it is compared with the
	// last name of a path.
	baseOnly bool
	// literal is what a path, or its last name, must begin with. git compares this
	// part without looking at wildcards.
	literal string
	glob    []token // matches what follows literal; empty matches the end
	least   int     // how many bytes glob matches at least
}

// special are the bytes at which git begins to look at wildcards.
const special = `*?[\`

func parsePattern(s string, line int) pattern {
	p := pattern{line: line}
	s, p.negated = strings.CutPrefix(s, "!")
	s, p.dirOnly = strings.CutSuffix(s, "/")
	p.baseOnly = !strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	n := strings.IndexAny(s, special)
	if n < 0 {
		n = len(s)
	}
	p.literal, p.glob = s[:n], compile(s[n:])
	for i, t := range p.glob {
		if t.kind <= tokenClass && (i == 0 || p.glob[i-1].kind != tokenDirs) {
			p.least++
		}
	}
	return p
}

// matches compares p with a path relative to the directory of p's file.
func (p *pattern) matches(rel string) bool {
	if p.baseOnly {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	rest, ok := strings.CutPrefix(rel, p.literal)
	return ok && p.least <= len(rest) && match(p.glob, rest)
}

// token is one element of a compiled glob.
type token struct {
	kind tokenKind
	char byte       // of a literal
	set  *[256]bool // of a class: what it matches
}

type tokenKind byte

const (
	tokenChar   tokenKind = iota // one byte
	tokenAny                     // ?: one byte that is no slash
	tokenClass                   // [...]: one byte of a set, never a slash
	tokenStar                    // *: any bytes but slashes
	tokenStars                   // **: any bytes
	tokenDirs                    // ** before a slash: any bytes, or nothing including that slash
	tokenBroken                  // matches nothing: an open class, a final backslash
)

// compile translates a glob with the semantics of git's wildmatch and WM_PATHNAME.
func compile(s string) (out []token) {
	for i := 0; i < len(s); {
		switch s[i] {
		case '\\':
			if i+1 == len(s) {
				return append(out, token{kind: tokenBroken})
			}
			out = append(out, token{char: s[i+1]})
			i += 2
		case '?':
			out = append(out, token{kind: tokenAny})
			i++
		case '*':
			end := i
			for end < len(s) && s[end] == '*' {
				end++
			}
			kind := stars(s, i, end)
			i = end
			if n := len(out); kind == tokenDirs && n > 1 && out[n-2].kind == tokenDirs {
				i++ // **/**/ is **/
				continue
			}
			out = append(out, token{kind: kind})
		case '[':
			set, n := class(s[i:])
			if set == nil {
				return append(out, token{kind: tokenBroken})
			}
			out = append(out, token{kind: tokenClass, set: set})
			i += n
		default:
			out = append(out, token{char: s[i]})
			i++
		}
	}
	return out
}

// stars says what the asterisks s[from:to] mean. Two or more cross directories only
// where they are a whole component. git compares the part of a pattern before its
// first wildcard on its own, so that ** right after it counts as one: foo** and
// foo**/bar cross directories.
func stars(s string, from, to int) tokenKind {
	begins := from == 0 || s[from-1] == '/'
	rest := s[to:]
	switch {
	case to-from < 2 || !begins:
		return tokenStar
	case strings.HasPrefix(rest, "/"):
		return tokenDirs
	case rest == "" || strings.HasPrefix(rest, `\/`):
		return tokenStars
	}
	return tokenStar
}

// match reports whether a glob matches all of text. It follows every way to match at
// the same time, so that many asterisks cost no more than one.
func match(glob []token, text string) bool {
	var few [3][24]int
	m := matcher{glob: glob, now: few[0][:0], next: few[1][:0], seen: few[2][:]}
	if len(glob) >= len(m.seen) {
		m.seen = make([]int, len(glob)+1)
	}
	m.round = 1
	m.enter(0)
	for i := 0; i < len(text) && len(m.next) > 0; i++ {
		m.now, m.next = m.next, m.now[:0]
		m.round++
		for _, at := range m.now {
			m.step(at, text[i])
		}
	}
	return m.seen[len(glob)] == m.round
}

// matcher holds the positions in a glob that the text so far leads to.
type matcher struct {
	glob      []token
	now, next []int
	seen      []int // the round in which a position was last added to next
	round     int
}

// enter adds position at, and those that it reaches without another byte.
func (m *matcher) enter(at int) {
	m.add(at)
	if at == len(m.glob) {
		return
	}
	switch m.glob[at].kind {
	case tokenDirs:
		m.enter(at + 2)
		m.add(at + 1)
	case tokenStar, tokenStars:
		m.add(at + 1)
	}
}

func (m *matcher) add(at int) {
	if m.seen[at] != m.round {
		m.seen[at] = m.round
		m.next = append(m.next, at)
	}
}

// step adds the positions that byte c leads to from position at.
func (m *matcher) step(at int, c byte) {
	if at == len(m.glob) {
		return
	}
	switch t := &m.glob[at]; t.kind {
	case tokenChar:
		if c == t.char {
			m.enter(at + 1)
		}
	case tokenAny:
		if c != '/' {
			m.enter(at + 1)
		}
	case tokenClass:
		if t.set[c] {
			m.enter(at + 1)
		}
	case tokenStar:
		if c != '/' {
			m.add(at)
			m.add(at + 1)
		}
	case tokenStars, tokenDirs:
		m.add(at)
		m.add(at + 1)
	}
}
