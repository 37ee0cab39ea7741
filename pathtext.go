package segno

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// QuotePath formats a path for a user as git does. It quotes a path with unprintable
// characters, quotes, backslashes, or spaces at either end, and uses the escapes of C; bytes
// that are not text are octal. It returns any other path unchanged. The path of a database is
// formatted as the word "database" and the name.
func QuotePath(path string) string {
	if name, ok := DatabaseName(path); ok {
		return "database " + QuotePath(name)
	}
	special := func(r rune) bool { return r == '"' || r == '\\' || r == utf8.RuneError || unprintable(r) }
	if path != "" && !strings.ContainsFunc(path, special) && strings.TrimSpace(path) == path {
		return path
	}
	const escapes, letters = "\a\b\t\n\v\f\r\"\\", `abtnvfr"\`
	var b strings.Builder
	b.WriteByte('"')
	for rest := path; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		switch i := strings.IndexRune(escapes, r); {
		case r != utf8.RuneError && i >= 0:
			b.WriteByte('\\')
			b.WriteByte(letters[i])
		case r == utf8.RuneError && n == 1, unprintable(r):
			for _, c := range []byte(rest[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteString(rest[:n])
		}
		rest = rest[n:]
	}
	b.WriteByte('"')
	return b.String()
}

// unprintable reports whether a character could control a terminal, reorder the text around it,
// or be invisible.
func unprintable(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
