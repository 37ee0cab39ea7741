package cli

import (
	"net/url"
	"strings"
)

// URLScheme returns the scheme of a URL, and false for a path.
func URLScheme(text string) (string, bool) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || scheme == "" || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") != "" {
		return "", false
	}
	scheme = strings.ToLower(scheme)
	return scheme, strings.HasPrefix(rest, "//") || scheme == "file"
}

// RedactURL returns a URL that is safe to print. It removes the password, and the query, which may contain another one.
// If the URL cannot be parsed with certainty, only the scheme remains.
func RedactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" || u.Opaque != "" || strings.Contains(u.Path, "@") || strings.Contains(u.Host, "@") {
		scheme, _, _ := strings.Cut(text, ":")
		return scheme + "://…"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}
