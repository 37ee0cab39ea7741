// Package openai is an [agent.Model] on the Chat Completions API of OpenAI, Ollama, vLLM,
// LM Studio, llama.cpp and others. [Options] contain the address of the server.
//
//	openai.New("gpt-5", openai.Options{})
//	openai.New("qwen3", openai.Options{BaseURL: "http://localhost:11434/v1"})
//
// The key comes from OPENAI_API_KEY, which is sent to OpenAI and to OPENAI_BASE_URL only. A
// server at an address given in code receives the key given in code, if it needs one. Answers
// are streamed. Thinking is returned to the same model until the turn ends.
package openai

import (
	"context"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/internal/endpoint"
)

// noKey is sent in place of a key to a server that may need none: some servers refuse a
// request without one.
const noKey = "none"

// Options configure a model. The zero value is valid.
type Options struct {
	// Key is the API key, in place of the environment's. It is the only key that is sent to a
	// BaseURL that is not OpenAI's.
	Key string
	// BaseURL is the address of the API, in place of OpenAI's or of OPENAI_BASE_URL. Most
	// servers' addresses end in /v1. Its query is sent with each request.
	BaseURL    string
	HTTPClient *http.Client
	// MaxTokens limits an answer if the request has no limit; 0 is the server's default.
	MaxTokens int
	// Effort is the effort of a reasoning model: "low", "medium", "high" or another value that
	// the model knows.
	Effort string
	// IdleTimeout limits how long the server may send nothing during an answer. Then the answer
	// counts as truncated, and the agent retries. 0 is five minutes.
	IdleTimeout time.Duration
}

// New returns a model by the server's name for it, such as "gpt-5". Its [agent.Model] name is
// "openai/gpt-5". New sends nothing.
func New(name string, o Options) agent.Model {
	m := &model{name: name, maxTokens: o.MaxTokens, effort: o.Effort, server: endpoint.Server{Vendor: "OpenAI", Host: "api.openai.com",
		Default: "https://api.openai.com/v1", Example: "http://localhost:11434/v1", Path: []string{"chat", "completions"},
		KeyVar: "OPENAI_API_KEY", BaseVar: "OPENAI_BASE_URL", Key: o.Key, Base: o.BaseURL, Client: o.HTTPClient, Idle: o.IdleTimeout}}
	m.server.Connect()
	if m.server.Key == "" && !m.server.Own {
		m.server.Key = noKey
	}
	return m
}

type model struct {
	name      string
	maxTokens int
	effort    string
	server    endpoint.Server
}

func (m *model) Name() string { return "openai/" + m.name }

// Generate implements [agent.Model].
func (m *model) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		body := m.request(r)
		empty := len(body.Messages) == 0 || r.System != "" && len(body.Messages) == 1
		m.server.Generate(ctx, r, &endpoint.Call{Header: m.header(), Body: body, Empty: empty, Answer: &answer{model: m.Name()}}, nil, yield)
	}
}

// header returns the header of a request. The variables are those of OpenAI's own clients.
func (m *model) header() http.Header {
	h := http.Header{}
	if m.server.Trusted {
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
	h.Set("Authorization", "Bearer "+m.server.Key)
	return h
}
