package anthropic

import (
	"cmp"
	"errors"
	"net/http"
	"os"

	"github.com/dalsegno/segno/internal/endpoint"
)

// ownAddress is where Anthropic's own API is.
const ownAddress = "https://api.anthropic.com"

// connect makes ready what requests are sent with. What the environment has for Anthropic
// goes to Anthropic, and to where the environment says that it is, and nowhere else.
func (m *model) connect() {
	fromEnv := os.Getenv("ANTHROPIC_BASE_URL")
	u, err := endpoint.Parse(cmp.Or(m.base, fromEnv, ownAddress))
	if err != nil {
		m.wrong = err
		return
	}
	own := u.Scheme == "https" && u.Hostname() == "api.anthropic.com"
	m.trusted = m.base == "" || m.base == fromEnv || own
	if m.key == "" && m.trusted {
		m.key = os.Getenv("ANTHROPIC_API_KEY")
		m.token = os.Getenv("ANTHROPIC_AUTH_TOKEN")
	}
	m.address, m.client = endpoint.At(u, "v1", "messages"), guarded(m.client)
}

// header is what each request has beside its body.
func (m *model) header() http.Header {
	h := http.Header{"Anthropic-Version": {version}}
	if m.key != "" {
		h.Set("X-Api-Key", m.key)
	} else {
		h.Set("Authorization", "Bearer "+m.token)
	}
	return h
}

// guarded is a client that keeps the key from other servers: net/http takes its header
// along to wherever a server sends a request on. Without a client it is one that waits
// as long as models think.
func guarded(c *http.Client) *http.Client {
	if c == nil {
		c = endpoint.Client()
	}
	g := *c
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
