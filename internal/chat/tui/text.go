package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"

	"github.com/dalsegno/segno/internal/history/printable"
)

// escapeAll escapes all unsafe characters but line breaks, for text that must not hide anything. Joiners are among them.
func escapeAll(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\t", "    "), "\n")
	for i, line := range lines {
		lines[i] = printable.Clean(line)
	}
	return strings.Join(lines, "\n")
}

// escapeLine also replaces line breaks, for text that must stay on one line.
func escapeLine(s string) string { return strings.ReplaceAll(escapeAll(s), "\n", "⏎") }

// editableJSON formats JSON for editing. It writes unsafe characters as JSON escapes, so that
// the document keeps its meaning.
func editableJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	raw = bytes.TrimSpace(raw)
	if json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n' || !printable.IsUnsafe(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// wrap breaks text into lines of at most width columns. It puts prefix before the first line
// and as many blanks before the others.
func wrap(text, prefix string, width int) []string {
	indent := strings.Repeat(" ", ansi.StringWidth(prefix))
	width = max(10, width-len(indent))
	// Wrap may exceed the width by a space before a word that fills the line; Hardwrap does not.
	lines := strings.Split(ansi.Hardwrap(ansi.Wrap(text, width, ""), width, true), "\n")
	for i := range lines {
		if i == 0 {
			lines[i] = prefix + lines[i]
		} else if lines[i] != "" {
			lines[i] = indent + lines[i]
		}
	}
	return lines
}

// cut shortens a line to width columns.
func cut(line string, width int) string { return ansi.Truncate(line, max(1, width), "…") }
