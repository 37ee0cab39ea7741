package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"
)

// unsafe reports whether a character could drive the terminal, reorder what stands
// around it, or hide.
func unsafe(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }

// joins reports whether a character only says how its neighbours are drawn: words of
// some scripts and many emoji are made with it.
func joins(r rune) bool { return r == '\u200c' || r == '\u200d' }

// clean makes text from outside safe to show. Lines stay lines.
func clean(s string) string {
	return escaped(strings.ReplaceAll(s, "\r\n", "\n"), func(r rune) bool { return unsafe(r) && !joins(r) })
}

// strict is clean for what must not hide anything.
func strict(s string) string { return escaped(s, unsafe) }

func escaped(s string, bad func(rune) bool) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case !bad(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, "\\x%02x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// line is strict for what must stay on one.
func line(s string) string { return strings.ReplaceAll(strict(s), "\n", "⏎") }

// editable is JSON as a person can read and change it. Characters that must not
// reach the terminal are written the way JSON escapes them, so that it stays the
// same document.
func editable(raw json.RawMessage) string {
	var b bytes.Buffer
	raw = bytes.TrimSpace(raw)
	if json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case !unsafe(r):
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

// wrap breaks text into lines of at most width columns, and puts prefix before the
// first and as much space before the others.
func wrap(text, prefix string, width int) []string {
	indent := strings.Repeat(" ", ansi.StringWidth(prefix))
	width = max(10, width-len(indent))
	// Wrap lets a word that fills the line stand behind a space; the second cut does not.
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
