package anthropic

import (
	"cmp"
	"errors"
	"net/http"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/dalsegno/segno/internal/endpoint"
)

// ownAddress is where Anthropic's own API is.
const ownAddress = "https://api.anthropic.com"

// connect makes ready what requests are sent with. A key that the SDK finds goes to
// Anthropic, and to where the environment says that it is, and nowhere else.
func (m *model) connect() {
	fromEnv, set := os.LookupEnv("ANTHROPIC_BASE_URL")
	u, err := endpoint.Parse(cmp.Or(m.base, fromEnv, ownAddress))
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

// guarded is a client that keeps the key from other servers: net/http takes its header
// along to wherever a server sends a request on. Without a client it is one that waits
// as long as the SDK's own.
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
