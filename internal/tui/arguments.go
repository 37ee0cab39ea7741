package tui

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// argumentLines shows the arguments of a call in full. A value of one row follows its name.
// Any other has separate lines behind a vertical rule, which the value cannot imitate. The
// rule is dotted where a line was wrapped.
func argumentLines(raw json.RawMessage, width int) (lines []string) {
	width = max(20, width)
	all, ok := fields(raw)
	if !ok {
		return withRule(editableJSON(raw), width)
	}
	for _, f := range all {
		var text string
		if json.Unmarshal(f.value, &text) == nil {
			text = escapeAll(text)
		} else {
			text = editableJSON(f.value)
		}
		name := "  " + escapeLine(f.name) + ":"
		if row := name + " " + text; !strings.Contains(text, "\n") && ansi.StringWidth(row) <= width {
			lines = append(lines, row)
			continue
		}
		lines = append(append(lines, cut(name, width)), withRule(text, width)...)
	}
	return lines
}

// withRule shows text behind a rule. It keeps every character.
func withRule(text string, width int) (lines []string) {
	for row := range strings.SplitSeq(text, "\n") {
		rule := "  │ "
		for part := range strings.SplitSeq(ansi.Hardwrap(row, width-len("  | "), true), "\n") {
			lines, rule = append(lines, rule+part), "  ┆ "
		}
	}
	return lines
}

// field is a member of an object.
type field struct {
	name  string
	value json.RawMessage
}

// fields returns the members of an object as written, including both of two with one name.
func fields(raw json.RawMessage) (all []field, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		f := field{name: name.(string)}
		if d.Decode(&f.value) != nil {
			return nil, false
		}
		all = append(all, f)
	}
	_, err := d.Token()
	return all, err == nil && len(all) > 0 && !d.More()
}
