package openai

import (
	"cmp"
	"net/http"
	"os"
	"strings"

	"github.com/dalsegno/segno/internal/endpoint"
)

// ownAddress is where OpenAI's own API is.
const ownAddress = "https://api.openai.com/v1"

// connect makes ready what requests are sent with. What the environment says for
// OpenAI goes to OpenAI, and to where the environment says that it is, and nowhere
// else.
func (m *model) connect() {
	fromEnv := os.Getenv("OPENAI_BASE_URL")
	given := m.base
	m.base = cmp.Or(given, fromEnv, ownAddress)
	u, err := endpoint.Parse(m.base)
	if err != nil {
		m.wrong = err
		return
	}
	host := u.Hostname()
	m.own = host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com")
	m.trusted = given == "" || given == fromEnv || m.own && u.Scheme == "https"
	if m.key == "" && m.trusted {
		m.key = os.Getenv("OPENAI_API_KEY")
	}
	if m.key == "" && !m.own {
		m.key = noKey
	}
	m.address = endpoint.At(u, "chat", "completions")
	if m.client == nil {
		m.client = endpoint.Client()
	}
}

// header is what each request has beside its body.
func (m *model) header() http.Header {
	h := http.Header{}
	if m.trusted {
		for line := range strings.Lines(os.Getenv("OPENAI_CUSTOM_HEADERS")) {
			if name, value, ok := strings.Cut(line, ":"); ok {
				h.Set(strings.TrimSpace(name), strings.TrimSpace(value))
			}
		}
		for name, variable := range map[string]string{"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"} {
			if value := os.Getenv(variable); value != "" {
				h.Set(name, value)
			}
		}
	}
	h.Set("Authorization", "Bearer "+m.key)
	return h
}
