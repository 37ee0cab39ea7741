// Package openai is an [agent.Model] on the Chat Completions API, which OpenAI
// serves, and so do Ollama, vLLM, LM Studio, llama.cpp and others: give the address of
// one with [WithBaseURL].
//
//	openai.New("gpt-5")
//	openai.New("qwen3", openai.WithBaseURL("http://localhost:11434/v1"))
//
// The key comes from OPENAI_API_KEY; with another address than OpenAI's none is
// needed. Answers are streamed. What a server's model thought is handed back to the
// same model as long as the turn lasts.
package openai

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/dalsegno/segno/agent"
)

// Option changes how the model is asked.
type Option func(*model)

// WithKey is the API key, in place of the environment's.
func WithKey(key string) Option { return func(m *model) { m.key = key } }

// WithBaseURL is where the API is, in place of OpenAI's own or of OPENAI_BASE_URL. It
// ends in /v1 with most servers.
func WithBaseURL(address string) Option { return func(m *model) { m.base = address } }

// WithHTTPClient is what requests are sent with.
func WithHTTPClient(c *http.Client) Option {
	return func(m *model) { m.client = append(m.client, option.WithHTTPClient(c)) }
}

// WithMaxTokens is how many tokens an answer may have if the request does not say.
// Without it the server decides.
func WithMaxTokens(n int) Option { return func(m *model) { m.maxTokens = n } }

// WithEffort is how hard a reasoning model thinks: "low", "medium", "high" or what
// else the model knows.
func WithEffort(effort string) Option { return func(m *model) { m.effort = effort } }

// New returns a model by the server's name of it: "gpt-5". In this program it is
// called "openai/gpt-5". Nothing is sent before the first question.
func New(name string, opts ...Option) agent.Model {
	m := &model{name: name, key: os.Getenv("OPENAI_API_KEY"), base: os.Getenv("OPENAI_BASE_URL")}
	for _, o := range opts {
		o(m)
	}
	if m.base != "" {
		m.client = append(m.client, option.WithBaseURL(m.base))
	}
	if m.key == "" && !m.own() {
		m.key = "none" // the SDK sends nothing without one, and whoever needs none reads none
	}
	if m.key != "" {
		m.client = append(m.client, option.WithAPIKey(m.key))
	}
	// The agent is the one who tries again.
	m.client = append(m.client, option.WithMaxRetries(0), option.WithMiddleware(readError))
	m.chat = openai.NewClient(m.client...).Chat.Completions
	return m
}

type model struct {
	name      string
	key, base string
	maxTokens int
	effort    string
	client    []option.RequestOption
	chat      openai.ChatCompletionService
}

func (m *model) Name() string { return "openai/" + m.name }

// own reports whether the server is OpenAI's own, which knows parameters that others
// may refuse.
func (m *model) own() bool {
	u, err := url.Parse(m.base)
	return m.base == "" || err == nil && u.Hostname() == "api.openai.com"
}

// Generate implements [agent.Model].
func (m *model) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		if err := m.ask(ctx, r, yield); err != nil {
			yield(agent.Chunk{}, m.failure(ctx, err))
		}
	}
}

// ask streams one answer. It returns nil when the consumer has had enough.
func (m *model) ask(ctx context.Context, r agent.Request, yield func(agent.Chunk, error) bool) error {
	if m.key == "" {
		return errNoKey
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := m.chat.NewStreaming(ctx, m.params(r))
	defer stream.Close() // nothing to lose: it was only read
	var a answer
	for stream.Next() {
		c := a.add(stream.Current())
		if c != (agent.Chunk{}) && !yield(c, nil) {
			return nil
		}
	}
	if err := stream.Err(); err != nil && a.finish == "" {
		return a.broken(err)
	}
	reply, err := a.reply(m.Name(), ownNames(r.Tools))
	if err != nil {
		return err
	}
	yield(agent.Chunk{Reply: reply}, nil)
	return nil
}

// params is the request as the API wants it.
func (m *model) params(r agent.Request) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: m.name, Messages: m.conversation(r),
		ReasoningEffort: shared.ReasoningEffort(m.effort),
		StreamOptions:   openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, toolOf(t))
	}
	if r.NoCalls && len(p.Tools) > 0 { // the API refuses a choice of nothing
		p.ToolChoice.OfAuto = openai.String("none")
	}
	limit := m.maxTokens
	if r.MaxTokens > 0 {
		limit = r.MaxTokens
	}
	switch own := m.own(); {
	case limit > 0 && own:
		p.MaxCompletionTokens = openai.Int(int64(limit)) // its newer models refuse max_tokens
	case limit > 0:
		p.MaxTokens = openai.Int(int64(limit)) // which every server knows
	}
	if m.own() && r.Thread != "" {
		p.PromptCacheKey = openai.String(cacheKey(r.Thread))
	}
	return p
}
