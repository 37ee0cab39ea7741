package markdown

import (
	"html"
	"strings"

	"github.com/dalsegno/segno/internal/history/printable"
)

// inline renders the text of a paragraph.
func inline(text string) string {
	text = strings.TrimSpace(printable.Patch(text))
	return (&span{text: text, brackets: matchBrackets(text), missing: map[int]bool{}, links: true}).render()
}

// span renders emphasis, code and links. It builds pieces of HTML; a mark that opens emphasis is a
// piece that stays text until its closing mark is found.
type span struct {
	text     string
	brackets map[int]int // the positions of "[" and of their "]"
	missing  map[int]bool
	links    bool // whether links are rendered
	pieces   []string
	open     []openMark
}

// openMark is a mark that may open emphasis.
type openMark struct {
	mark  string
	piece int
}

// matchBrackets pairs the brackets of a text in one pass.
func matchBrackets(text string) map[int]int {
	pairs := map[int]int{}
	var stack []int
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			stack = append(stack, i)
		case ']':
			if n := len(stack); n > 0 {
				pairs[stack[n-1]], stack = i, stack[:n-1]
			}
		}
	}
	return pairs
}

func (s *span) render() string {
	from := 0
	for i := 0; i < len(s.text); {
		n := 0
		if strings.IndexByte("\\`*_~[!<h", s.text[i]) >= 0 {
			s.literal(s.text[from:i])
			from = i
			n = s.special(i)
		}
		if n > 0 {
			i += n
			from = i
			continue
		}
		i++
	}
	s.literal(s.text[from:])
	return strings.Join(s.pieces, "")
}

func (s *span) literal(text string) {
	if text != "" {
		s.pieces = append(s.pieces, html.EscapeString(text))
	}
}

// special renders the construct at i, and returns its length, or 0 if there is only text.
func (s *span) special(i int) int {
	rest := s.text[i:]
	switch rest[0] {
	case '\\':
		if len(rest) > 1 && strings.IndexByte("\\`*_{}[]()#+-.!|~<>", rest[1]) >= 0 {
			s.literal(rest[1:2])
			return 2
		}
	case '`':
		return s.code(rest)
	case '*', '_', '~':
		return s.emphasis(i)
	case '[':
		return s.link(i, "")
	case '!':
		if len(rest) > 1 && rest[1] == '[' {
			if n := s.link(i+1, "image: "); n > 0 {
				return n + 1
			}
		}
	case '<':
		return s.autolink(rest)
	case 'h':
		return s.bareURL(i)
	}
	return 0
}

// autolink renders a URL in angle brackets.
func (s *span) autolink(rest string) int {
	if end := strings.IndexByte(rest[:min(len(rest), 2000)], '>'); end > 0 && s.links {
		if dest, ok := safeURL(rest[1:end]); ok {
			s.anchor(dest, html.EscapeString(rest[1:end]))
			return end + 1
		}
	}
	return 0
}

// code renders a span of code, which ends at the next run of the same number of backticks.
func (s *span) code(rest string) int {
	n := len(rest) - len(strings.TrimLeft(rest, "`"))
	if !s.missing[n] {
		for at := n; at < len(rest); {
			next := strings.IndexByte(rest[at:], '`')
			if next < 0 {
				break
			}
			at += next
			run := len(rest[at:]) - len(strings.TrimLeft(rest[at:], "`"))
			if run == n {
				s.pieces = append(s.pieces, "<code>"+html.EscapeString(strings.TrimSpace(rest[n:at]))+"</code>")
				return at + n
			}
			at += run
		}
		s.missing[n] = true // no such run follows in the text
	}
	s.literal(rest[:n])
	return n
}

// emphasis handles a mark: it closes the emphasis that the same mark opened, or may open one.
func (s *span) emphasis(i int) int {
	rest := s.text[i:]
	mark := rest[:1]
	if len(rest) > 1 && rest[1] == rest[0] {
		mark = rest[:2]
	}
	if mark == "~" {
		return 0
	}
	after := i + len(mark)
	spaceBefore := i == 0 || isSpace(s.text[i-1])
	spaceAfter := after >= len(s.text) || isSpace(s.text[after])
	isInWord := mark[0] == '_' && i > 0 && after < len(s.text) && isLetter(s.text[i-1]) && isLetter(s.text[after])
	if !spaceBefore && !isInWord && s.closeEmphasis(mark) {
		return len(mark)
	}
	if !spaceAfter && !isInWord {
		s.open = append(s.open, openMark{mark, len(s.pieces)})
	}
	s.literal(mark)
	return len(mark)
}

// closeEmphasis closes the newest emphasis that a mark opened. It reports whether there is one.
func (s *span) closeEmphasis(mark string) bool {
	const deepest = 16
	for n := len(s.open) - 1; n >= max(0, len(s.open)-deepest); n-- {
		if s.open[n].mark == mark && s.open[n].piece < len(s.pieces)-1 {
			tag := map[string]string{"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}[mark]
			s.pieces[s.open[n].piece] = "<" + tag + ">"
			s.pieces = append(s.pieces, "</"+tag+">")
			s.open = s.open[:n]
			return true
		}
	}
	return false
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' }

func isLetter(c byte) bool {
	return c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// link renders [label](destination "title"). If the destination is not safe, it renders text. An image
// becomes a link, because the page must not load anything.
func (s *span) link(i int, prefix string) int {
	end, ok := s.brackets[i]
	const longest = 4000
	if !ok || !s.links || end+1 >= len(s.text) || s.text[end+1] != '(' {
		return 0
	}
	inside := s.text[end+2 : min(len(s.text), end+2+longest)]
	closing := strings.IndexByte(inside, ')')
	if closing < 0 {
		return 0
	}
	dest, _, _ := strings.Cut(strings.TrimSpace(inside[:closing]), " ")
	address, ok := safeURL(strings.Trim(dest, "<>"))
	if !ok {
		return 0
	}
	label := s.text[i+1 : end]
	s.anchor(address, html.EscapeString(prefix)+(&span{text: label, missing: map[int]bool{}}).render())
	return end + 2 + closing + 1 - i
}

func (s *span) anchor(dest, label string) {
	s.pieces = append(s.pieces, `<a href="`+html.EscapeString(dest)+`" rel="noopener noreferrer nofollow">`+label+`</a>`)
}

// bareURL renders an address at i as a link, if a word begins there.
func (s *span) bareURL(i int) int {
	rest := s.text[i:]
	if !s.links || i > 0 && isLetter(s.text[i-1]) || !strings.HasPrefix(rest, "http://") && !strings.HasPrefix(rest, "https://") {
		return 0
	}
	const longest = 2000
	n := strings.IndexFunc(rest[:min(len(rest), longest)], func(r rune) bool { return r <= ' ' || strings.ContainsRune("<>\"'`*()[]{}|\\", r) })
	if n < 0 {
		n = min(len(rest), longest)
	}
	shown := strings.TrimRight(rest[:n], ".,:;!?_")
	dest, ok := safeURL(shown)
	if !ok {
		return 0
	}
	s.anchor(dest, html.EscapeString(shown))
	return len(shown)
}
