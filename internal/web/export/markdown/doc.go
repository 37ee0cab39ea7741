// Package markdown makes the Markdown of agents inert. The words of an agent are hostile: they may
// contain scripts, links with a scheme that runs code, pictures that report a reader to a server,
// and characters that reverse the direction of text.
//
// [HTML] renders Markdown as HTML with a fixed set of elements. It escapes all text, shows HTML in the
// source as text, and writes no element that loads anything. [Inert] returns Markdown for other
// renderers, with the same parts escaped.
//
// Both accept any bytes, and take time in proportion to the length of the source.
package markdown

import (
	"html"
	"net/url"
	"strings"

	"github.com/dalsegno/segno/internal/history/printable"
)

// Escape returns text for HTML. It replaces invisible characters that change the display of others by
// their numbers.
func Escape(text string) string { return html.EscapeString(printable.Patch(text)) }

// safeURL returns the destination of a link, encoded for an attribute, or false if it is not an address
// on the web or of mail.
func safeURL(dest string) (string, bool) {
	const longest = 2000
	if len(dest) > longest || strings.ContainsFunc(dest, func(r rune) bool { return r <= ' ' || printable.IsUnsafe(r) || r == '\\' }) {
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
