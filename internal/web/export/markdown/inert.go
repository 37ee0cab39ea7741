package markdown

import (
	"regexp"
	"strings"

	"github.com/dalsegno/segno/internal/history/printable"
)

// Inert returns Markdown that shows the same text and does nothing else. HTML becomes text, pictures
// become links, and links lead only to the web, to mail or to a path. Headings are two levels lower, so
// that they fit below the caller's. Inert closes a block of code that the source leaves open.
func Inert(source string) string {
	var b strings.Builder
	f := fenceReader{}
	var p paragraphReader
	for line := range strings.Lines(printable.Patch(strings.ReplaceAll(source, "\r\n", "\n"))) {
		line = strings.TrimSuffix(line, "\n")
		if f.isCode(line) {
			p = paragraphReader{}
			b.WriteString(line + "\n")
			continue
		}
		b.WriteString(p.inert(line) + "\n")
	}
	if f.fence != "" {
		b.WriteString(strings.Repeat(" ", f.indent) + f.fence + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// fenceReader follows the blocks of code. It treats a line as code only if every renderer does: a block
// in a list ends with the list, so it ends here at a line with a smaller indent than its fence. After
// that line renderers may disagree, and fenceReader treats no line as code.
type fenceReader struct {
	fence    string
	indent   int
	isUnsure bool
}

// isCode reports whether a line is code or the fence of code, which Inert writes unchanged.
func (f *fenceReader) isCode(line string) bool {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	const deepest = 3 // a line with a larger indent may be code of another kind
	switch {
	case f.isUnsure:
		return false
	case f.fence == "":
		fence := fenceOf(line)
		if fence == "" || indent > deepest || strings.HasPrefix(strings.TrimLeft(line, " "), "\t") {
			f.isUnsure = f.isUnsure || fence != ""
			return false
		}
		f.fence, f.indent = fence, indent
		return !strings.ContainsAny(line[indent+len(fence):], "<")
	case indent < f.indent && strings.TrimSpace(line) != "":
		f.isUnsure, f.fence = true, ""
		return false
	}
	if indent <= deepest && closes(line, f.fence) && !strings.Contains(line, "\t") {
		f.fence = ""
	}
	return true
}

var (
	heading    = regexp.MustCompile(`^( {0,3})(#{1,6})([ \t]|$)`)
	definition = regexp.MustCompile(`^[ \t>*+\-0-9.)]*\[.*\]:`)
	pathOnly   = regexp.MustCompile(`^[A-Za-z0-9_./#-]+$`)
)

// paragraphReader escapes the lines of paragraphs, in order.
type paragraphReader struct {
	// isUnsure is set after backticks that their own line does not close. A span of code may then
	// continue over line ends, so no later line of the paragraph certainly has a span.
	isUnsure bool
}

// inert escapes a line that is not code.
func (p *paragraphReader) inert(line string) string {
	if strings.TrimSpace(line) == "" {
		p.isUnsure = false
		return line
	}
	if m := heading.FindStringSubmatchIndex(line); m != nil {
		level := min(6, m[5]-m[4]+2)
		line = line[:m[4]] + strings.Repeat("#", level) + line[m[5]:]
	}
	isDefinition := definition.MatchString(line)
	var b strings.Builder
	missing := map[int]bool{}
	for i := 0; i < len(line); {
		text, n := "", 0
		if line[i] == '`' {
			var isCode bool
			if n, isCode = codeSpan(line[i:], missing); isCode && (p.isUnsure || isDefinition) {
				n = len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
			}
			p.isUnsure = p.isUnsure || !isCode
			text = line[i : i+n]
		} else {
			text, n = escaped(line[i:])
		}
		b.WriteString(text)
		i += n
	}
	return b.String()
}

// escaped returns a replacement for the beginning of a text outside code, and the length of the replaced
// part.
func escaped(text string) (out string, n int) {
	next := byte(0)
	if len(text) > 1 {
		next = text[1]
	}
	switch c := text[0]; {
	case c == '\\' && next != 0 && next != '<' && next != '&':
		return text[:2], 2
	case c == '<':
		return "&lt;", 1
	case c == '!' && next == '[':
		return `\!`, 1
	case c == ']' && next == '(' && !isInertDestination(text[2:]):
		return `]\(`, 2
	case c == ']' && next == ':': // it would define the destination of other links
		return `]\:`, 2
	}
	return text[:1], 1
}

// codeSpan returns the length of the span of code at the beginning of text, and whether there is one.
func codeSpan(text string, missing map[int]bool) (length int, ok bool) {
	n := len(text) - len(strings.TrimLeft(text, "`"))
	for at := n; at < len(text) && !missing[n]; {
		next := strings.IndexByte(text[at:], '`')
		if next < 0 {
			break
		}
		at += next
		run := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		if at += run; run == n {
			return at, true
		}
	}
	missing[n] = true
	return n, false
}

// isInertDestination reports whether the destination of a link, which ends with a parenthesis, is safe.
func isInertDestination(rest string) bool {
	const longest = 4000
	end := strings.IndexByte(rest[:min(len(rest), longest)], ')')
	if end < 0 {
		return false
	}
	dest, _, _ := strings.Cut(strings.TrimSpace(rest[:end]), " ")
	if pathOnly.MatchString(dest) {
		return true
	}
	_, ok := safeURL(dest)
	return ok
}
