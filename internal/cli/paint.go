package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/history/printable"
)

// Paint colours text for a terminal, and leaves it alone for anything else.
type Paint struct{ On, Ascii bool }

// Paint follows NO_COLOR (no-color.org) and TERM=dumb.
func (a *App) Paint(w io.Writer) Paint {
	dumb := a.Getenv("TERM") == "dumb"
	forced := a.Getenv("CLICOLOR_FORCE") != "" && a.Getenv("CLICOLOR_FORCE") != "0"
	return Paint{On: a.Getenv("NO_COLOR") == "" && !dumb && (Terminal(w) || forced), Ascii: dumb}
}

func (p Paint) code(code, s string) string {
	if !p.On || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Bold and the methods below return s in a style, or s itself without colours.
func (p Paint) Bold(s string) string  { return p.code("1", s) }
func (p Paint) Dim(s string) string   { return p.code("2", s) }
func (p Paint) Warn(s string) string  { return p.code("33", s) }
func (p Paint) Files(s string) string { return p.code("36", s) }
func (p Paint) Added(s string) string { return p.code("32", s) }
func (p Paint) Gone(s string) string  { return p.code("31", s) }

// role colours a part of the description of a move.
func (p Paint) role(r moves.Role, s string) string {
	return [...]func(string) string{moves.Bold: p.Bold, moves.Dim: p.Dim, moves.Warn: p.Warn, moves.Files: p.Files,
		moves.Added: p.Added, moves.Gone: p.Gone}[r](s)
}

// Glyph is the sign of a checkpoint in the graph.
func (p Paint) Glyph(h *history.History, c *segno.Checkpoint) string {
	sign, plain := "○", "o"
	switch {
	case c.ID == h.Head.Head:
		sign, plain = "@", "@"
	case c.Interrupted || c.Partial():
		sign, plain = "×", "x"
	case len(h.Pins[c.ID]) > 0 || c.Kind == segno.CheckpointSave:
		sign, plain = "◆", "*"
	case c.Kind == segno.CheckpointExternal || c.Kind == segno.CheckpointRestore:
		sign, plain = "·", "."
	}
	if p.Ascii {
		return plain
	}
	if sign == "@" {
		return p.Bold(sign)
	}
	return sign
}

// Width is the number of columns of the terminal; 0 is no limit.
func (p *Printer) Width() int {
	if f, ok := FileOf(p.w); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// Drawn replaces characters that some terminals lack.
func (p Paint) Drawn(s string) string {
	if !p.Ascii {
		return s
	}
	return strings.NewReplacer("│", "|", "├", "|", "─", "-", "┼", "+", "╯", "'",
		"┤", "+", "└", "+", "●", "*", "○", "o", "×", "x", "…", "...", "—", "-", "→", "->", "✓", "ok", "✗", "x", "⏎", " ").Replace(s)
}

// Visible returns the number of columns that s takes on a terminal.
func Visible(s string) int { return ansi.StringWidth(s) }

// Fit shortens s to width columns. It does not shorten s if width is not positive.
func Fit(s string, width int) string {
	if width <= 0 {
		return s
	}
	return ansi.Truncate(s, width, "…")
}

// Pad fills s with spaces up to a width on the terminal.
func Pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-Visible(s)))
}

// Clean makes text safe to print: it escapes the characters that could control the terminal.
func Clean(s string) string { return printable.Clean(s) }

// Inline is Clean for text that must stay on one line.
func Inline(s string) string { return printable.Inline(s) }

// CleanLines is clean for text of several lines, which may be in any script.
func CleanLines(s string) string { return printable.Lines(s) }

// Quote puts text that a person wrote between quotation marks.
func Quote(s string) string { return printable.Quote(s) }

// CommandLine formats a command so that a user can paste it into a shell.
func CommandLine(run []string) string {
	words := make([]string, len(run))
	for i, w := range run {
		words[i] = ShellQuote(w)
	}
	return strings.Join(words, " ")
}

// ShellQuote quotes one word for a shell. The result is safe to print.
func ShellQuote(s string) string {
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || printable.IsUnsafe(r) }):
		var b strings.Builder
		for _, c := range []byte(s) {
			if c < ' ' || c > '~' || c == '\'' || c == '\\' {
				fmt.Fprintf(&b, "\\%03o", c)
			} else {
				b.WriteByte(c)
			}
		}
		return "$'" + b.String() + "'"
	case plainWord.MatchString(s):
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[-0-9A-Za-z/._+@%:=,]+$`)
