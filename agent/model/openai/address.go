package openai

import (
	"cmp"
	"os"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

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
	m.host, m.own = u.Host, host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com")
	m.trusted = given == "" || given == fromEnv || m.own && u.Scheme == "https"
	if m.key == "" && m.trusted {
		m.key = os.Getenv("OPENAI_API_KEY")
	}
	if m.key == "" && !m.own {
		m.key = noKey
	}
	query := u.Query()
	u.RawQuery, u.Fragment = "", ""
	options := []option.RequestOption{option.WithBaseURL(u.String())}
	for name, values := range query {
		for _, value := range values {
			options = append(options, option.WithQueryAdd(name, value))
		}
	}
	if m.key != "" {
		options = append(options, option.WithAPIKey(m.key))
	}
	if m.client != nil {
		options = append(options, option.WithHTTPClient(m.client))
	} else if !m.trusted {
		options = append(options, option.WithHTTPClient(endpoint.Client()))
	}
	options = append(options, option.WithMaxRetries(0)) // the agent is the one who tries again
	if m.trusted {
		m.chat = openai.NewClient(options...).Chat.Completions
	} else {
		m.chat = openai.NewChatCompletionService(options...) // which does not read the environment
	}
}
