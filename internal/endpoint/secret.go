package endpoint

import (
	"net/http"
	"regexp"
	"strings"
)

const (
	minSecret = 8   // letters: shorter ones are words too, which a text may be full of
	maxText   = 300 // letters of what a server says
)

// looksSecret is what looks like a key, whoever's it is.
var looksSecret = regexp.MustCompile(`sk-[\w*-]{10,}`)

// secretsOf are the secrets in a request.
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

// told is an error in words for people. What it is about is below it.
type told struct {
	text string
	err  error
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.err }

// tell is an error whose text is one line that is not too long, and has no secret in
// it: servers repeat the key.
func tell(text string, secrets []string, err error) error {
	text = strings.Join(strings.Fields(text), " ")
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	text = looksSecret.ReplaceAllLiteralString(text, "…")
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText-1]) + "…"
	}
	return &told{text: text, err: err}
}
