// Package markdown makes the Markdown of agents inert. The words of an agent are hostile: they may
// contain scripts, links with a scheme that runs code, pictures that report a reader to a server,
// and characters that reverse the direction of text.
//
// [HTML] renders Markdown as HTML with a fixed set of elements. All text is escaped, HTML in the
// source is shown as text, and nothing in the result loads anything. [Inert] returns Markdown for
// the renderers of others, in which the same parts are escaped.
//
// Both take time in proportion to the source, and any bytes.
package markdown

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns text for HTML. Characters that cannot be seen but change how others are shown are
// replaced by their numbers.
func Escape(text string) string { return html.EscapeString(Visible(text)) }

// Visible replaces control characters and marks of direction by their numbers, and bytes that are
// not UTF-8 by U+FFFD. Line ends and tabs stay.
func Visible(text string) string {
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, string(utf8.RuneError)) {
		switch {
		case r == utf8.RuneError || !isHidden(r):
			b.WriteRune(r)
		case r == '\r':
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// isHidden reports whether a character is one that [Visible] replaces. The joiners stay: words of some
// scripts and many emoji contain them.
func isHidden(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d', '\ufeff', '\u00ad':
		return false
	case utf8.RuneError:
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// safeURL returns the destination of a link in a form for an attribute, or false if it is not an address
// on the web or of mail.
func safeURL(dest string) (string, bool) {
	const longest = 2000
	if len(dest) > longest || strings.ContainsFunc(dest, func(r rune) bool { return r <= ' ' || isHidden(r) || r == '\\' }) {
		return "", false
	}
	u, err := url.Parse(dest)
	if err != nil {
		return "", false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.String(), u.Host != ""
	case "mailto":
		return u.String(), true
	}
	return "", false
}
