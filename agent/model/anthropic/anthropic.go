// Package anthropic is an [agent.Model] on Anthropic's Messages API.
//
// The key comes from ANTHROPIC_API_KEY, or a bearer token from ANTHROPIC_AUTH_TOKEN. Both
// are sent to Anthropic and to ANTHROPIC_BASE_URL only: an address given in code needs a
// key given in code. Answers are streamed. The end of the system prompt,
// of the tools and of the conversation, now and at the step before, are marked for the
// provider's prompt cache, so that a long conversation costs a fraction of itself at
// each step.
//
// What a model thought is kept as the API sent it and handed back to the same model
// only. Some models refuse a thought when anything before it has changed, which a
// summary does; such a request was not answered, and is sent once more without
// thoughts, and without asking for any in the midst of a turn. Nothing else is tried
// twice: the agent does that.
package anthropic

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

// defaultMaxTokens is what an answer may have if nobody says. The API wants a number,
// and no model in service takes less.
const defaultMaxTokens = 16384

// Option changes how the model is asked.
type Option func(*model)

// WithKey is the API key, in place of the environment's. It is the only one that is
// sent to an address given with [WithBaseURL] that is not Anthropic's.
func WithKey(key string) Option { return func(m *model) { m.key = key } }

// WithBaseURL is where the API is, in place of Anthropic's own or of
// ANTHROPIC_BASE_URL. A query goes with each request.
func WithBaseURL(address string) Option { return func(m *model) { m.base = address } }

// WithHTTPClient is what requests are sent with.
func WithHTTPClient(c *http.Client) Option { return func(m *model) { m.client = c } }

// WithMaxTokens is how many tokens an answer may have, not counting a thinking
// budget, if the request does not say. The default is 16384.
func WithMaxTokens(n int) Option { return func(m *model) { m.maxTokens = n } }

// WithThinking lets the model think before it answers, in at most budget tokens, of
// which the API wants 1024 or more. With 0 the model decides how much, which is the
// only way that newer models know.
func WithThinking(budget int) Option {
	return func(m *model) { m.thinks, m.budget = true, budget }
}

// WithIdleTimeout is how long the server may send nothing in the midst of an answer; then
// the answer has broken off, and the agent asks again. Without it that is five minutes.
func WithIdleTimeout(d time.Duration) Option { return func(m *model) { m.idle = d } }

// New returns a model by Anthropic's name of it: "claude-sonnet-4-5". In this program
// it is called "anthropic/claude-sonnet-4-5". Nothing is sent before the first
// question.
func New(name string, opts ...Option) agent.Model {
	m := &model{name: name, maxTokens: defaultMaxTokens, idle: endpoint.DefaultIdle}
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
	thinks    bool
	budget    int
	client    *http.Client
	idle      time.Duration

	wrong   error    // of the address, which says that no request can be sent
	address *url.URL // of messages
	trusted bool     // it may be sent what the environment has for Anthropic
	token   string   // a bearer token, in place of a key
}

func (m *model) Name() string { return "anthropic/" + m.name }

// Generate implements [agent.Model].
func (m *model) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		x := &endpoint.Exchange{Client: m.client, Idle: m.idle, Refusal: readRefusal, Whole: eventsOf}
		err := m.ask(ctx, x, r, true, yield)
		if refusesThoughts(err) {
			err = m.ask(ctx, x, r, false, yield)
		}
		if err != nil {
			yield(agent.Chunk{}, m.failure(ctx, x, err))
		}
	}
}

// ask streams one answer. It returns nil when the consumer has had enough.
func (m *model) ask(ctx context.Context, x *endpoint.Exchange, r agent.Request, thoughts bool, yield func(agent.Chunk, error) bool) error {
	for _, t := range r.Tools {
		if len(t.Schema) > 0 && !json.Valid(t.Schema) {
			return fmt.Errorf("name tool %s: %w", t.Name, errSchema)
		}
	}
	params := m.params(r, thoughts)
	switch {
	case m.wrong != nil:
		return m.wrong
	case m.key == "" && m.token == "":
		return errNoKey
	case len(params.Messages) == 0:
		return errNothing
	}
	var a answer
	for e, err := range x.Events(ctx, m.address, m.header(), params) {
		if err != nil && x.Began {
			err = fmt.Errorf("%w: %w", errBroken, err)
		}
		if err != nil {
			return err
		}
		chunk, err := a.add(e, x.Header)
		if err != nil {
			return err
		}
		if chunk != (agent.Chunk{}) && !yield(chunk, nil) {
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

// afterResults reports whether a conversation ends with what came of calls.
func afterResults(messages []agent.Message) bool {
	n := len(messages)
	return n > 0 && messages[n-1].Role == agent.ToolRole
}
