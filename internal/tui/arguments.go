package tui

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// arguments is what a call is to be made with, in full. What is one value in a row
// stands behind its name; everything else stands in lines of its own, behind a rule
// that it cannot leave. Where a line is broken to fit the rule is dotted.
func arguments(raw json.RawMessage, width int) (lines []string) {
	width = max(20, width)
	all, ok := fields(raw)
	if !ok {
		return ruled(editable(raw), width)
	}
	for _, f := range all {
		var text string
		if json.Unmarshal(f.value, &text) == nil {
			text = strict(text)
		} else {
			text = editable(f.value)
		}
		name := "  " + line(f.name) + ":"
		if row := name + " " + text; !strings.Contains(text, "\n") && ansi.StringWidth(row) <= width {
			lines = append(lines, row)
			continue
		}
		lines = append(append(lines, cut(name, width)), ruled(text, width)...)
	}
	return lines
}

// ruled sets text behind a rule. Every character of it is kept.
func ruled(text string, width int) (lines []string) {
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

// fields are an object's members as they are written: of two with one name, both.
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
