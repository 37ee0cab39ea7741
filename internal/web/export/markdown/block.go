package markdown

import (
	"fmt"
	"strings"
)

const (
	// maxSource is the largest size of a text to render. HTML shows a longer text as preformatted.
	maxSource = 1 << 20
	// maxNesting is the largest depth of quotes and lists.
	maxNesting = 8
)

// HTML renders Markdown: paragraphs, headings, code, quotes, lists, tables, emphasis and links.
func HTML(source string) string {
	var b strings.Builder
	if len(source) > maxSource {
		b.WriteString("<pre>" + Escape(source) + "</pre>\n")
		return b.String()
	}
	r := renderer{out: &b}
	r.blocks(strings.Split(strings.ReplaceAll(source, "\r\n", "\n"), "\n"), 0)
	return b.String()
}

type renderer struct{ out *strings.Builder }

func (r *renderer) print(format string, args ...any) { fmt.Fprintf(r.out, format, args...) }

func (r *renderer) blocks(lines []string, depth int) {
	for len(lines) > 0 {
		line := lines[0]
		n := 1
		switch {
		case strings.TrimSpace(line) == "":
		case fenceOf(line) != "":
			n = r.code(lines)
		case headingLevel(line) > 0:
			level := headingLevel(line)
			r.print("<h%d>%s</h%d>\n", level, inline(strings.TrimRight(strings.TrimSpace(line)[level:], "# ")), level)
		case isRule(line):
			r.print("<hr>\n")
		case depth < maxNesting && isQuote(line):
			n = r.quote(lines, depth)
		case depth < maxNesting && markerOf(line).width > 0:
			n = r.list(lines, depth)
		case len(lines) > 1 && isDelimiterRow(lines[1]) && strings.Contains(line, "|"):
			n = r.table(lines)
		default:
			n = r.paragraph(lines, depth)
		}
		lines = lines[n:]
	}
}

// fenceOf returns the characters that begin a block of code, or "".
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " \t")
	for _, c := range []string{"`", "~"} {
		run := line[:len(line)-len(strings.TrimLeft(line, c))]
		if len(run) >= 3 && (c == "~" || !strings.Contains(line[len(run):], "`")) {
			return run
		}
	}
	return ""
}

// closes reports whether a line ends a block of code that began with fence.
func closes(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// code renders a block of code, which ends with the source if nothing closes it.
func (r *renderer) code(lines []string) int {
	fence := fenceOf(lines[0])
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	r.print("<pre><code>")
	n := 1
	for ; n < len(lines); n++ {
		if closes(lines[n], fence) {
			n++
			break
		}
		line := lines[n]
		for i := 0; i < indent && strings.HasPrefix(line, " "); i++ {
			line = line[1:]
		}
		r.out.WriteString(Escape(line) + "\n")
	}
	r.print("</code></pre>\n")
	return n
}

// headingLevel returns 1 to 6 for a heading, else 0.
func headingLevel(line string) int {
	line = strings.TrimSpace(line)
	level := len(line) - len(strings.TrimLeft(line, "#"))
	if level > 6 || level == 0 || len(line) > level && line[level] != ' ' && line[level] != '\t' {
		return 0
	}
	return level
}

func isRule(line string) bool {
	line = strings.ReplaceAll(strings.TrimSpace(line), " ", "")
	return len(line) >= 3 && (strings.Trim(line, "-") == "" || strings.Trim(line, "*") == "" || strings.Trim(line, "_") == "")
}

func isQuote(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), ">") }

func (r *renderer) quote(lines []string, depth int) int {
	var inner []string
	for _, line := range lines {
		if !isQuote(line) {
			break
		}
		inner = append(inner, strings.TrimPrefix(strings.TrimLeft(line, " ")[1:], " "))
	}
	r.print("<blockquote>\n")
	r.blocks(inner, depth+1)
	r.print("</blockquote>\n")
	return len(inner)
}

// marker is the beginning of an item of a list.
type marker struct {
	indent, width int // columns before the marker, and of the marker with the space after it
	isNumber      bool
	number        string
}

// markerOf returns the marker of a line. Its width is 0 if the line has none.
func markerOf(line string) (m marker) {
	rest := strings.TrimLeft(line, " ")
	m.indent = len(line) - len(rest)
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	const longest = 9 // digits
	switch {
	case rest == "":
		return m
	case strings.ContainsRune("-*+", rune(rest[0])):
		m.width = 1
	case digits > 0 && digits <= longest && digits < len(rest) && (rest[digits] == '.' || rest[digits] == ')'):
		m.width, m.isNumber, m.number = digits+1, true, rest[:digits]
	default:
		return m
	}
	switch {
	case len(rest) == m.width:
	case rest[m.width] == ' ' || rest[m.width] == '\t':
		m.width++
	default:
		m.width = 0
	}
	return m
}

// list renders a list. Lines with a larger indent than the marker belong to the item.
func (r *renderer) list(lines []string, depth int) int {
	first := markerOf(lines[0])
	tag := "ul"
	if first.isNumber {
		tag = "ol"
		r.print("<ol start=\"%s\">\n", first.number)
	} else {
		r.print("<ul>\n")
	}
	n := 0
	for n < len(lines) {
		m := markerOf(lines[n])
		if m.width == 0 || m.isNumber != first.isNumber || m.indent > first.indent+1 || m.indent < first.indent || isRule(lines[n]) {
			break
		}
		item := []string{lines[n][m.indent+m.width:]}
		for n++; n < len(lines) && belongs(lines, n, m); n++ {
			item = append(item, unindent(lines[n], m.indent+m.width))
		}
		r.print("<li>")
		r.item(item, depth)
		r.print("</li>\n")
	}
	r.print("</%s>\n", tag)
	return n
}

// item renders an item. A single line is rendered without a paragraph.
func (r *renderer) item(lines []string, depth int) {
	if len(lines) == 1 && fenceOf(lines[0]) == "" && markerOf(lines[0]).width == 0 && !isQuote(lines[0]) && headingLevel(lines[0]) == 0 {
		r.out.WriteString(inline(lines[0]))
		return
	}
	r.blocks(lines, depth+1)
}

// belongs reports whether line n continues the item with a marker.
func belongs(lines []string, n int, m marker) bool {
	line := lines[n]
	if strings.TrimSpace(line) == "" {
		return n+1 < len(lines) && strings.TrimSpace(lines[n+1]) != "" && indentOf(lines[n+1]) > m.indent
	}
	if indentOf(line) > m.indent {
		return indentOf(line) >= m.indent+2 || markerOf(line).width == 0
	}
	isPlain := markerOf(line).width == 0 && fenceOf(line) == "" && headingLevel(line) == 0 && !isQuote(line) && !isRule(line)
	return isPlain && strings.TrimSpace(lines[n-1]) != ""
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

func unindent(line string, most int) string { return line[min(most, indentOf(line)):] }

// isDelimiterRow reports whether a line separates the head of a table from its rows.
func isDelimiterRow(line string) bool {
	line = strings.TrimSpace(line)
	return strings.Contains(line, "-") && strings.Contains(line, "|") && strings.Trim(line, "|-: ") == ""
}

func (r *renderer) table(lines []string) int {
	columns := len(cells(lines[0]))
	row := func(line, tag string) {
		r.print("<tr>")
		for i, c := range cells(line) {
			if i == columns {
				break
			}
			r.print("<%s>%s</%s>", tag, inline(c), tag)
		}
		r.print("</tr>\n")
	}
	r.print("<table>\n")
	row(lines[0], "th")
	n := 2
	for ; n < len(lines) && strings.Contains(lines[n], "|"); n++ {
		row(lines[n], "td")
	}
	r.print("</table>\n")
	return n
}

// cells splits a row at its bars. A bar after a backslash does not split.
func cells(line string) (out []string) {
	line = strings.TrimSpace(line)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	from := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '|':
			out = append(out, strings.TrimSpace(line[from:i]))
			from = i + 1
		}
	}
	return append(out, strings.TrimSpace(line[from:]))
}

// paragraph renders the lines up to an empty one or to another block.
func (r *renderer) paragraph(lines []string, depth int) int {
	n := 1
	for ; n < len(lines); n++ {
		line := lines[n]
		if strings.TrimSpace(line) == "" || fenceOf(line) != "" || headingLevel(line) > 0 || isRule(line) ||
			depth < maxNesting && (isQuote(line) || markerOf(line).width > 0) {
			break
		}
	}
	r.print("<p>%s</p>\n", inline(strings.Join(lines[:n], "\n")))
	return n
}
