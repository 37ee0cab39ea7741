// Package endpoint is the part that the adapters of models share: it sends a request to a
// model's server, reads the answer as a stream, and turns failures into [agent.ModelError].
//
// An adapter describes its API as a [Server] and each request as a [Call].
package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// defaultIdle is the longest silence of a stream between two pieces of an answer.
	defaultIdle = 5 * time.Minute
	// maxSilence is the longest time before a server begins its answer.
	maxSilence = 10 * time.Minute
)

// Server is a vendor's API at an address. Set the fields, then call Connect once.
type Server struct {
	Vendor  string   // the name in hints, such as "OpenAI"
	Host    string   // of the vendor's own API
	Default string   // base URL of the vendor's own API
	Example string   // a base URL for hints
	KeyVar  string   // environment variable with the key
	BaseVar string   // environment variable with the base URL
	Path    []string // of the resource, below the base URL

	Key    string // from the program; if it is empty, Connect sets it from the environment
	Token  string // a bearer token in place of Key
	Base   string // from the program; if it is empty, Connect sets it from the environment
	Client *http.Client
	Idle   time.Duration // how long a stream may be silent

	Own     bool // the address is the vendor's
	Trusted bool // the address may receive the credentials in the environment

	url     *url.URL
	err     error // the base URL is unusable
	keySet  bool  // the program gave a key that the environment does not have
	baseSet bool  // the program gave an address that the environment does not have
}

// Connect resolves the address and the key. It sends nothing. The key in the environment
// goes only to the vendor and to the address in the environment: an address given in code
// needs a key given in code. The first request reports an unusable address.
func (s *Server) Connect() {
	s.Idle = cmp.Or(s.Idle, defaultIdle)
	fromEnv := os.Getenv(s.BaseVar)
	s.baseSet = s.Base != "" && s.Base != fromEnv
	s.keySet = s.Key != "" && s.Key != os.Getenv(s.KeyVar)
	u, err := parse(cmp.Or(s.Base, fromEnv, s.Default))
	if err != nil {
		s.err = err
		return
	}
	s.Own = u.Hostname() == s.Host || strings.HasSuffix(u.Hostname(), "."+s.Host)
	s.Trusted = s.Base == "" || s.Base == fromEnv || s.Own && u.Scheme == "https"
	if s.Key == "" && s.Trusted {
		s.Key = os.Getenv(s.KeyVar)
	}
	if s.Client == nil {
		s.Client = newClient()
	}
	s.url = u.JoinPath(s.Path...)
	s.url.RawQuery, s.url.Fragment = u.Query().Encode(), ""
}

// parse parses a base URL. Its error does not repeat the URL, which may contain a secret.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		var parsing *url.Error
		if errors.As(err, &parsing) {
			err = parsing.Err
		}
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("the base URL does not begin with http:// or https:// and a host")
	}
	return u, nil
}

// newClient returns a client that waits up to maxSilence for the beginning of an answer,
// because models think before they answer.
func newClient() *http.Client {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return &http.Client{}
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = maxSilence
	return &http.Client{Transport: t}
}

// RefuseRedirects makes the client refuse redirects, so that credentials in custom headers
// do not reach other hosts: net/http removes only Authorization from a redirected request.
func (s *Server) RefuseRedirects() {
	if s.Client == nil || s.Client.CheckRedirect != nil {
		return
	}
	guarded := *s.Client
	guarded.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if from := via[0].URL; r.URL.Host != from.Host || r.URL.Scheme != from.Scheme || len(via) >= 10 {
			return errRedirect
		}
		return nil
	}
	s.Client = &guarded
}
