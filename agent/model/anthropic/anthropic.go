// Package anthropic is an [agent.Model] on Anthropic's Messages API.
//
//	anthropic.New("claude-sonnet-4-5", anthropic.Options{})
//
// The key comes from ANTHROPIC_API_KEY, or a bearer token from ANTHROPIC_AUTH_TOKEN. Both are
// sent to Anthropic and to ANTHROPIC_BASE_URL only: an address given in code needs a key given
// in code. Answers are streamed. The ends of the system prompt, of the tools and of the
// conversation, now and at the step before, are marked for the provider's prompt cache, so a
// step of a long conversation costs a fraction of the conversation.
//
// Thinking is stored as the API sent it and returned to the same model only. Some models refuse
// their thinking after an earlier message has changed, as a summary does. The adapter then
// sends the request again without thinking. It retries nothing else: the agent does.
package anthropic

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/internal/endpoint"
)

const (
	apiVersion = "2023-06-01"
	// defaultMaxTokens limits an answer if no option does. The API requires a limit, and all
	// current models accept this one.
	defaultMaxTokens = 16384
)

// Options configure a model. The zero value is valid.
type Options struct {
	// Key is the API key, in place of the environment's. It is the only key that is sent to a
	// BaseURL that is not Anthropic's.
	Key string
	// BaseURL is the address of the API, in place of Anthropic's or of ANTHROPIC_BASE_URL. Its
	// query is sent with each request.
	BaseURL    string
	HTTPClient *http.Client
	// MaxTokens limits an answer if the request has no limit; 0 is 16384. The thinking budget
	// does not count.
	MaxTokens int
	// Thinking lets the model think before it answers, as much as the model decides. Newer
	// models require that.
	Thinking bool
	// ThinkingBudget lets the model think in at most this number of tokens. The API requires at
	// least 1024.
	ThinkingBudget int
	// CacheLifetime is how long the provider's prompt cache keeps a prefix after its last use. The API
	// offers five minutes and, at another price, an hour. Values up to five minutes, and 0, select
	// five minutes. Longer ones select an hour.
	CacheLifetime time.Duration
	// IdleTimeout limits how long the server may send nothing during an answer. Then the answer
	// counts as truncated, and the agent retries. 0 is five minutes.
	IdleTimeout time.Duration
}

// New returns a model by Anthropic's name for it, such as "claude-sonnet-4-5". Its
// [agent.Model] name is "anthropic/claude-sonnet-4-5". New sends nothing.
func New(name string, o Options) agent.Model {
	m := &model{name: name, Options: o, server: endpoint.Server{Vendor: "Anthropic", Host: "api.anthropic.com",
		Default: "https://api.anthropic.com", Example: "https://api.anthropic.com", Path: []string{"v1", "messages"},
		KeyVar: "ANTHROPIC_API_KEY", BaseVar: "ANTHROPIC_BASE_URL", Key: o.Key, Base: o.BaseURL, Client: o.HTTPClient, Idle: o.IdleTimeout}}
	m.MaxTokens = cmp.Or(m.MaxTokens, defaultMaxTokens)
	m.server.Connect()
	if m.server.Trusted && o.Key == "" {
		m.server.Token = os.Getenv("ANTHROPIC_AUTH_TOKEN")
	}
	m.server.RefuseRedirects()
	return m
}

type model struct {
	Options
	name   string
	server endpoint.Server
}

func (m *model) Name() string { return "anthropic/" + m.name }

// Generate implements [agent.Model].
func (m *model) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		withoutThinking := func(err error) *endpoint.Call {
			if !refusesThinking(err) {
				return nil
			}
			return m.call(r, false)
		}
		m.server.Generate(ctx, r, m.call(r, true), withoutThinking, yield)
	}
}

func (m *model) call(r agent.Request, thinking bool) *endpoint.Call {
	h := http.Header{"Anthropic-Version": {apiVersion}}
	if m.server.Key != "" {
		h.Set("X-Api-Key", m.server.Key)
	} else {
		h.Set("Authorization", "Bearer "+m.server.Token)
	}
	body := m.request(r, thinking)
	return &endpoint.Call{Header: h, Body: body, Empty: len(body.Messages) == 0, Answer: &answer{model: m.Name()}}
}
