package tui

import (
	"encoding/json"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/dalsegno/segno/internal/jsonscan"
)

// argumentLines shows the arguments of a call in full. A value of one row follows its name.
// Any other value has separate lines after a vertical rule, which the value cannot imitate.
// The rule is dotted where a line was wrapped.
func argumentLines(raw json.RawMessage, width int) (lines []string) {
	width = max(20, width)
	if jsonscan.Valid(raw) {
		jsonscan.Members(raw, jsonscan.SkipSpace(raw, 0), func(key []byte, value jsonscan.Span) {
			lines = append(lines, argumentRows(jsonscan.Unescape(key), value.Of(raw), width)...)
		})
	}
	if lines == nil {
		return withRule(editableJSON(raw), width)
	}
	return lines
}

func argumentRows(name string, value json.RawMessage, width int) []string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		text = escapeAll(text)
	} else {
		text = editableJSON(value)
	}
	name = "  " + escapeLine(name) + ":"
	if row := name + " " + text; !strings.Contains(text, "\n") && ansi.StringWidth(row) <= width {
		return []string{row}
	}
	return append([]string{cut(name, width)}, withRule(text, width)...)
}

// withRule puts a rule before each line of text. It keeps every character.
func withRule(text string, width int) (lines []string) {
	for row := range strings.SplitSeq(text, "\n") {
		rule := "  │ "
		for part := range strings.SplitSeq(ansi.Hardwrap(row, width-len("  | "), true), "\n") {
			lines, rule = append(lines, rule+part), "  ┆ "
		}
	}
	return lines
}
