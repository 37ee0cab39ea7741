// Package printable formats text, counts and names so that they are safe to print on a terminal or to show beside other
// text. It escapes control characters, characters that reorder text, and hidden characters.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// Clean escapes the characters of s that could control a terminal.
func Clean(s string) string { return escape(s, IsUnsafe) }

// Inline is like Clean, for text that must stay on one line.
func Inline(s string) string { return Clean(strings.ReplaceAll(s, "\n", "⏎")) }

// Lines is like Clean, for text of several lines in any script.
func Lines(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\t", "    ").Replace(s)
	return escape(s, func(r rune) bool { return r != '\n' && IsUnsafe(r) && !isJoiner(r) })
}

// Patch is like Lines, for a diff, in which tabs and line endings matter.
func Patch(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && r != '\t' && IsUnsafe(r) && !isJoiner(r) })
}

func escape(s string, bad func(rune) bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || bad(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
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

// IsUnsafe reports whether a character could control a terminal, reorder the text around it, or
// hide.
func IsUnsafe(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// isJoiner reports whether a character only changes how its neighbours are drawn. Words of some
// scripts and many emoji contain such characters.
func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// Quote puts text that a person wrote between quotation marks.
func Quote(s string) string {
	return strings.NewReplacer(`\\`, `\\`, `\u200c`, "\u200c", `\u200d`, "\u200d").Replace(strconv.Quote(s))
}

// Plural formats a count with its noun: "1 file", "2 files".
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Counts formats the counts as ~modified +added -deleted and leaves out zeros.
func Counts(n segno.Counts) string {
	var parts []string
	for _, x := range []struct {
		sign string
		n    int
	}{{"~", n.Modified}, {"+", n.Added}, {"-", n.Deleted}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d", x.sign, x.n))
		}
	}
	return strings.Join(parts, " ")
}

// Label returns the name of a checkpoint in text: "t4" for a turn, else its short id.
func Label(c *segno.Checkpoint) string {
	if c.Kind == segno.CheckpointTurn {
		return "t" + strconv.Itoa(c.Turn)
	}
	return Short(c.ID)
}

// ShortLength is the number of letters of an id that are printed.
const ShortLength = 6

// Short shortens an id that segno made to its first letters. It returns any other id, such as a name that the user chose,
// as [Clean] does.
func Short[ID ~string](id ID) string { return Prefix(id, ShortLength) }

// Prefix is like Short, with another number of letters.
func Prefix[ID ~string](id ID, letters int) string {
	if len(id) != len(segno.NewID()) || strings.Trim(string(id), idLetters) != "" {
		return Clean(string(id))
	}
	return string(id[:letters])
}

// idLetters are the letters and digits of [segno.NewID] and [segno.DerivedID]. A name of the same length can have any characters,
// because a user or another machine chose it.
const idLetters = "abcdefghijklmnopqrstuvwxyz234567"
