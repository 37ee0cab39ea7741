// Package openai is an [agent.Model] on the Chat Completions API, which OpenAI
// serves, and so do Ollama, vLLM, LM Studio, llama.cpp and others: give the address of
// one with [WithBaseURL].
//
//	openai.New("gpt-5")
//	openai.New("qwen3", openai.WithBaseURL("http://localhost:11434/v1"))
//
// The key comes from OPENAI_API_KEY, which is sent to OpenAI and to OPENAI_BASE_URL
// only. A server at an address given in code may need none, and gets what [WithKey]
// says. Answers are streamed. What a server's model thought is handed back to the
// same model as long as the turn lasts.
package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/endpoint"
)

// Option changes how the model is asked.
type Option func(*model)

// WithKey is the API key, in place of the environment's. It is the only one that is
// sent to an address given with [WithBaseURL] that is not OpenAI's.
func WithKey(key string) Option { return func(m *model) { m.key = key } }

// WithBaseURL is where the API is, in place of OpenAI's own or of OPENAI_BASE_URL. It
// ends in /v1 with most servers. A query goes with each request.
func WithBaseURL(address string) Option { return func(m *model) { m.base = address } }

// WithHTTPClient is what requests are sent with.
func WithHTTPClient(c *http.Client) Option { return func(m *model) { m.client = c } }

// WithMaxTokens is how many tokens an answer may have if the request does not say.
// Without it the server decides.
func WithMaxTokens(n int) Option { return func(m *model) { m.maxTokens = n } }

// WithEffort is how hard a reasoning model thinks: "low", "medium", "high" or what
// else the model knows.
func WithEffort(effort string) Option { return func(m *model) { m.effort = effort } }

// WithIdleTimeout is how long the server may send nothing in the midst of an answer; then
// the answer has broken off, and the agent asks again. Without it that is five minutes.
func WithIdleTimeout(d time.Duration) Option { return func(m *model) { m.idle = d } }

// New returns a model by the server's name of it: "gpt-5". In this program it is
// called "openai/gpt-5". Nothing is sent before the first question.
func New(name string, opts ...Option) agent.Model {
	m := &model{name: name, idle: endpoint.DefaultIdle}
	for _, o := range opts {
		o(m)
	}
	m.connect()
	return m
}

type model struct {
	name      string
	key, base string
	maxTokens int
	effort    string
	client    *http.Client
	idle      time.Duration

	wrong   error    // of the address, which says that no request can be sent
	address *url.URL // of chat completions
	own     bool     // the server is OpenAI's, which knows parameters that others may refuse
	trusted bool     // it may be told what the environment has for it
}

func (m *model) Name() string { return "openai/" + m.name }

// Generate implements [agent.Model].
func (m *model) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		x := &endpoint.Exchange{Client: m.client, Idle: m.idle, Refusal: readRefusal, Whole: eventsOf}
		if err := m.ask(ctx, x, r, yield); err != nil {
			yield(agent.Chunk{}, m.failure(ctx, x, err))
		}
	}
}

// ask streams one answer. It returns nil when the consumer has had enough.
func (m *model) ask(ctx context.Context, x *endpoint.Exchange, r agent.Request, yield func(agent.Chunk, error) bool) error {
	for _, t := range r.Tools {
		if len(t.Schema) > 0 && !json.Valid(t.Schema) {
			return fmt.Errorf("name tool %s: %w", t.Name, errSchema)
		}
	}
	params := m.params(r)
	switch {
	case m.wrong != nil:
		return m.wrong
	case m.key == "":
		return errNoKey
	case len(params.Messages) == 0 || r.System != "" && len(params.Messages) == 1:
		return errNothing
	}
	var a answer
	for e, err := range x.Events(ctx, m.address, m.header(), params) {
		if err != nil && x.Began {
			err = fmt.Errorf("%w: %w", errBroken, err)
		}
		var c agent.Chunk
		if err == nil {
			c, err = a.add(e, x.Header)
		}
		if a.ended || err != nil && a.finish != "" {
			break // it is whole
		}
		if err != nil {
			return err
		}
		if c != (agent.Chunk{}) && !yield(c, nil) {
			return nil
		}
	}
	reply, err := a.reply(m.Name(), ownNames(r.Tools), afterResults(r.Messages))
	if err != nil {
		return err
	}
	yield(agent.Chunk{Reply: reply}, nil)
	return nil
}

// params is the request as the API wants it.
func (m *model) params(r agent.Request) *request {
	p := &request{Model: m.name, Messages: m.conversation(r), ReasoningEffort: m.effort, Stream: true}
	p.StreamOptions.IncludeUsage = true
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, toolOf(t))
	}
	if r.NoCalls && len(p.Tools) > 0 { // the API refuses a choice of nothing
		p.ToolChoice = "none"
	}
	limit := m.maxTokens
	if r.MaxTokens > 0 {
		limit = r.MaxTokens
	}
	if m.own {
		p.MaxCompletion = limit // its newer models refuse max_tokens
	} else {
		p.MaxTokens = limit // which every server knows
	}
	if m.own && r.Thread != "" {
		p.PromptCacheKey = cacheKey(r.Thread)
	}
	return p
}

// afterResults reports whether a conversation ends with what came of calls.
func afterResults(messages []agent.Message) bool {
	n := len(messages)
	return n > 0 && messages[n-1].Role == agent.ToolRole
}
