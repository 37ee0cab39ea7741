package cli

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/printable"
)

// paint colours text for a terminal, and leaves it alone for anything else.
type paint struct{ on, ascii bool }

// paint follows NO_COLOR (no-color.org) and TERM=dumb.
func (a *app) paint(w io.Writer) paint {
	dumb := a.Getenv("TERM") == "dumb"
	forced := a.Getenv("CLICOLOR_FORCE") != "" && a.Getenv("CLICOLOR_FORCE") != "0"
	return paint{on: a.Getenv("NO_COLOR") == "" && !dumb && (terminal(w) || forced), ascii: dumb}
}

func (p paint) code(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string  { return p.code("1", s) }
func (p paint) dim(s string) string   { return p.code("2", s) }
func (p paint) warn(s string) string  { return p.code("33", s) }
func (p paint) files(s string) string { return p.code("36", s) }
func (p paint) added(s string) string { return p.code("32", s) }
func (p paint) gone(s string) string  { return p.code("31", s) }

// role colours a part of the description of a move.
func (p paint) role(r moves.Role, s string) string {
	return [...]func(string) string{moves.Bold: p.bold, moves.Dim: p.dim, moves.Warn: p.warn, moves.Files: p.files,
		moves.Added: p.added, moves.Gone: p.gone}[r](s)
}

// glyph is the sign of a checkpoint in the graph.
func (p paint) glyph(h *history.History, c *segno.Checkpoint) string {
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
	if p.ascii {
		return plain
	}
	if sign == "@" {
		return p.bold(sign)
	}
	return sign
}

// width is the number of columns of the terminal; 0 is no limit.
func (p *printer) width() int {
	if f, ok := fileOf(p.w); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// drawn replaces characters that some terminals lack.
func (p paint) drawn(s string) string {
	if !p.ascii {
		return s
	}
	return strings.NewReplacer("│", "|", "├", "|", "─", "-", "┼", "+", "╯", "'",
		"┤", "+", "└", "+", "●", "*", "○", "o", "×", "x", "…", "...", "→", "->", "✓", "ok", "✗", "x", "⏎", " ").Replace(s)
}

// visible returns the number of columns that s takes on a terminal.
func visible(s string) int { return ansi.StringWidth(s) }

// fit shortens s to width columns. It does not shorten s if width is not positive.
func fit(s string, width int) string {
	if width <= 0 {
		return s
	}
	return ansi.Truncate(s, width, "…")
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-visible(s)))
}

// clean makes text safe to print: it escapes the characters that could control the terminal.
func clean(s string) string { return printable.Clean(s) }

// inline is clean for text that must stay on one line.
func inline(s string) string { return printable.Inline(s) }

// cleanLines is clean for text of several lines, which may be in any script.
func cleanLines(s string) string { return printable.Lines(s) }

// quote puts text that a person wrote between quotation marks.
func quote(s string) string {
	return strings.NewReplacer(`\\`, `\\`, `\u200c`, "\u200c", `\u200d`, "\u200d").Replace(strconv.Quote(s))
}

// commandLine formats a command so that a user can paste it into a shell.
func commandLine(run []string) string {
	words := make([]string, len(run))
	for i, w := range run {
		words[i] = shellQuote(w)
	}
	return strings.Join(words, " ")
}

// shellQuote quotes one word for a shell. The result is safe to print.
func shellQuote(s string) string {
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
