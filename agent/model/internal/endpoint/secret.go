package endpoint

import (
	"net/http"
	"regexp"
	"strings"
)

const (
	minSecret = 8   // letters: a shorter secret may also be a word of an ordinary text
	maxText   = 300 // letters of a server's text
)

// keyPattern matches the keys of common vendors.
var keyPattern = regexp.MustCompile(`sk-[\w*-]{10,}`)

// secretsOf returns the credentials in a request.
func secretsOf(r *http.Request) (all []string) {
	add := func(s string) {
		if len(s) >= minSecret {
			all = append(all, s)
		}
	}
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	add(key)
	add(r.Header.Get("X-Api-Key"))
	for name, values := range r.URL.Query() {
		if name = strings.ToLower(name); strings.Contains(name, "key") || strings.Contains(name, "token") {
			for _, v := range values {
				add(v)
			}
		}
	}
	return all
}

// redactedError has a text that is safe to show, and wraps the original error.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// redact returns an error with a text of one line and limited length, without the
// credentials of the request: servers repeat keys in their errors.
func (x *exchange) redact(text string, err error) error {
	text = strings.Join(strings.Fields(text), " ")
	for _, s := range x.secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	text = keyPattern.ReplaceAllLiteralString(text, "…")
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText-1]) + "…"
	}
	return &redactedError{text: text, err: err}
}
