package anthropic

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// ownAddress is where Anthropic's own API is.
const ownAddress = "https://api.anthropic.com"

// maxSilence is how long a server may take to say anything at all.
const maxSilence = 10 * time.Minute

// connect makes ready what requests are sent with. A key that the SDK finds goes to
// Anthropic, and to where the environment says that it is, and nowhere else.
func (m *model) connect() {
	fromEnv, set := os.LookupEnv("ANTHROPIC_BASE_URL")
	u, err := parseAddress(cmp.Or(m.base, fromEnv, ownAddress))
	if err != nil {
		m.wrong = err
		return
	}
	own := u.Scheme == "https" && u.Hostname() == "api.anthropic.com"
	m.trusted = m.base == "" || m.base == fromEnv || own
	// The agent is the one who tries again, and who records spans.
	options := []option.RequestOption{option.WithMaxRetries(0), option.WithoutOpenTelemetry(), option.WithHTTPClient(guarded(m.client))}
	if m.base != "" || set { // else it is the SDK who knows
		query := u.Query()
		u.RawQuery, u.Fragment = "", ""
		options = append(options, option.WithBaseURL(u.String()))
		for name, values := range query {
			for _, value := range values {
				options = append(options, option.WithQueryAdd(name, value))
			}
		}
	}
	if m.key != "" || !m.trusted {
		options = append(options, option.WithoutEnvironmentDefaults())
	}
	if m.key != "" {
		options = append(options, option.WithAPIKey(m.key))
	}
	m.messages = anthropic.NewClient(options...).Messages
}

// parseAddress reads a base URL.
func parseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		var parsing *url.Error
		if errors.As(err, &parsing) {
			err = parsing.Err // without the address, which may hold a secret
		}
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("the base URL does not begin with http:// or https:// and a host")
	}
	return u, nil
}

// guarded is a client that keeps the key from other servers: net/http takes its header
// along to wherever a server sends a request on. Without a client it is one that waits
// as long as the SDK's own.
func guarded(c *http.Client) *http.Client {
	var g http.Client
	if c != nil {
		g = *c
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.ResponseHeaderTimeout = maxSilence
		g.Transport = t
	}
	if g.CheckRedirect == nil {
		g.CheckRedirect = stay
	}
	return &g
}

var errSentOn = errors.New("the server sends the request on to another one")

func stay(r *http.Request, via []*http.Request) error {
	if from := via[0].URL; r.URL.Host != from.Host || r.URL.Scheme != from.Scheme || len(via) >= 10 {
		return errSentOn
	}
	return nil
}
