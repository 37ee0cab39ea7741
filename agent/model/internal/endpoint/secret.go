package endpoint

import (
	"net/http"
	"regexp"
	"slices"
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
	for _, fields := range []map[string][]string{r.Header, r.URL.Query()} {
		for name, values := range fields {
			if isSecret(name) {
				for _, v := range values {
					add(v)
				}
			}
		}
	}
	return all
}

// isSecret reports whether a header or a parameter may have a credential. A program may send other headers than the API's.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"key", "token", "secret", "auth", "cookie", "passw", "credential"}, func(word string) bool {
		return strings.Contains(name, word)
	})
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
