package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// NewToken returns 256 random bits for a URL.
func NewToken() string {
	bits := make([]byte, 32)
	_, _ = rand.Read(bits) // never fails
	return base64.RawURLEncoding.EncodeToString(bits)
}

// guard decides which requests reach a handler.
type guard struct {
	hosts   []string // in the form of the Host header
	origins []string // in the form of the Origin header
	token   [sha256.Size]byte
	tokens  *Tokens // nil without further tokens
}

// newGuard returns the guard of a server that listens on an address. public may be nil.
func newGuard(listen net.Addr, public *url.URL, token string, tokens *Tokens) guard {
	g := guard{token: sha256.Sum256([]byte(token)), tokens: tokens}
	if host, port, err := net.SplitHostPort(listen.String()); err == nil {
		for _, name := range []string{host, "127.0.0.1", "localhost", "::1"} {
			g.hosts = append(g.hosts, net.JoinHostPort(name, port))
			if port == "80" {
				g.hosts = append(g.hosts, name)
			}
		}
	}
	for _, host := range g.hosts {
		g.origins = append(g.origins, "http://"+host)
	}
	if public != nil {
		g.hosts = append(g.hosts, strings.ToLower(public.Host))
		g.origins = append(g.origins, strings.ToLower(public.Scheme+"://"+public.Host))
	}
	return g
}

// checkSite refuses requests from other sites. The Host header shows a rebound DNS name; browsers
// set the other headers. navigation allows a link on another site to open the page.
func (g *guard) checkSite(r *http.Request, navigation bool) error {
	refused := func(what, value string) error {
		return segno.Errorf(segno.KindRefused, "check request", "", "the %s %q is not an address of this server", what, value).
			WithHint("open the address that segno printed, or give the address with --public-url")
	}
	if !slices.Contains(g.hosts, strings.ToLower(r.Host)) {
		return refused("host", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(g.origins, strings.ToLower(origin)) {
			return refused("origin", origin)
		}
	}
	if navigation && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
		return nil
	default:
		return segno.Errorf(segno.KindRefused, "check request", "", "a page of another site sent this request")
	}
}

// checkToken returns what the token of a request allows. It refuses a request without a token that the server knows. It
// compares hashes in constant time, and with every token, so that the time shows nothing about a token.
func (g *guard) checkToken(r *http.Request) (Scopes, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	granted := Scopes(0)
	if subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 {
		granted = ownerScopes
	}
	if g.tokens != nil {
		others, err := g.tokens.granted(sum)
		if err != nil && granted == 0 { // its text has a path, and anybody may have sent the request
			return 0, segno.Errorf(segno.KindIO, "check request", "", "the server cannot read its file of tokens").
				WithHint("run 'segno serve token list' on the server, which says why")
		}
		granted |= others
	}
	if strings.EqualFold(scheme, "Bearer") && granted != 0 {
		return granted, nil
	}
	why := "the token is wrong or has expired"
	if r.Header.Get("Authorization") == "" {
		why = "the token is missing"
	}
	return 0, withStatus(http.StatusUnauthorized, segno.Errorf(segno.KindRefused, "check request", "", "%s", why).
		WithHint("open the address that segno printed when it was started last"))
}

// setPolicy sets the headers with which a browser confines a response.
func setPolicy(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// The policies of the page and of data.
const (
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	dataPolicy = "default-src 'none'; frame-ancestors 'none'; sandbox"
)
