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
	"html"
	"net/url"
	"strings"

	"github.com/dalsegno/segno/internal/printable"
)

// Escape returns text for HTML. Characters that cannot be seen but change how others are shown are
// replaced by their numbers.
func Escape(text string) string { return html.EscapeString(printable.Patch(text)) }

// safeURL returns the destination of a link in a form for an attribute, or false if it is not an address
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
