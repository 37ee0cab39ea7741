package screencast

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// span is a piece of a line in one style.
type span struct {
	class string // of the SVG; empty for plain text
	text  string
}

// sequence matches an escape sequence of a terminal.
var sequence = regexp.MustCompile(`\x1b(?:\[([0-9;?]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\))`)

// parse returns the lines that a terminal shows after an output. It understands colors, and lines that are erased and written
// again. Another movement of the cursor is an error, because the image would not show it.
func parse(output string) (lines [][]span, err error) {
	output = strings.ReplaceAll(output, "\r\n", "\n")
	class := ""
	for line := range strings.SplitSeq(strings.TrimRight(output, "\n"), "\n") {
		var spans []span
		for line != "" {
			at := strings.IndexAny(line, "\x1b\r")
			if at < 0 {
				at = len(line)
			}
			if at > 0 {
				spans = append(spans, span{class, line[:at]})
				line = line[at:]
				continue
			}
			if line[0] == '\r' { // the next characters replace the line
				spans, line = nil, line[1:]
				continue
			}
			found := sequence.FindStringSubmatch(line)
			if found == nil || !strings.HasPrefix(line, found[0]) {
				return nil, fmt.Errorf("escape sequence %q", line[:min(len(line), 10)])
			}
			line = line[len(found[0]):]
			switch argument, name := found[1], found[2]; {
			case name == "m":
				class = styled(class, argument)
			case name == "K", name == "", strings.HasPrefix(argument, "?"): // erases to the end, sets a title, sets a mode
			default:
				return nil, fmt.Errorf("escape sequence %q", found[0])
			}
		}
		lines = append(lines, spans)
	}
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 { // a program may reset the terminal after its last line
		lines = lines[:len(lines)-1]
	}
	return lines, nil
}

var colors = []string{"", "red", "green", "yellow", "blue", "magenta", "cyan", ""}

// styled returns the classes after a sequence that changes the style.
func styled(class, argument string) string {
	for code := range strings.SplitSeq(argument, ";") {
		n, _ := strconv.Atoi(code) // an empty code is 0
		switch {
		case n == 0:
			class = ""
		case n == 1:
			class = strings.TrimSpace(class + " b")
		case n == 2:
			class = strings.TrimSpace(class + " d")
		case n >= 30 && n <= 37:
			class = strings.TrimSpace(class + " " + colors[n-30])
		case n >= 90 && n <= 97:
			class = strings.TrimSpace(class + " " + colors[n-90])
		}
	}
	return class
}

// wrap breaks a line after a number of columns.
func wrap(line []span, cols int) (lines [][]span) {
	var part []span
	width := 0
	for _, s := range line {
		for s.text != "" {
			n := utf8.RuneCountInString(s.text)
			if width+n <= cols {
				part, width = append(part, s), width+n
				break
			}
			cut := 0
			for range cols - width {
				_, size := utf8.DecodeRuneInString(s.text[cut:])
				cut += size
			}
			if cut > 0 {
				part = append(part, span{s.class, s.text[:cut]})
			}
			lines, part, width, s.text = append(lines, part), nil, 0, s.text[cut:]
		}
	}
	return append(lines, part)
}
