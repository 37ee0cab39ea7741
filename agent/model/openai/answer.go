package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"

	"github.com/dalsegno/segno/agent"
)

// answer is what has come of an answer so far.
type answer struct {
	text    strings.Builder
	thought strings.Builder
	named   string // what the server calls thoughts
	refusal bool
	calls   []*call
	chunks  int // that came
	finish  string
	usage   agent.Usage
}

// call is a call in the making: its arguments come in pieces.
type call struct {
	index    int64
	id, name string
	named    int // the chunk in which the name came last
	args     strings.Builder
}

var (
	errBroken  = errors.New("the answer broke off") // in its midst
	errEmpty   = errors.New("the answer says nothing")
	errNoCalls = errors.New("the answer says that it calls tools, and calls none")
)

// thoughtNames are the fields in which servers put what a model thinks, none of which
// is in OpenAI's own API.
var thoughtNames = []string{"reasoning_content", "reasoning"}

// add takes in what came, and returns what of it is to be told at once.
func (a *answer) add(chunk openai.ChatCompletionChunk) (c agent.Chunk) {
	a.chunks++
	if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		a.usage = agent.Usage{Input: int(u.PromptTokens), Output: int(u.CompletionTokens), CacheRead: int(u.PromptTokensDetails.CachedTokens)}
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue // only one was asked for
		}
		d := choice.Delta
		c.Text += d.Content + d.Refusal
		a.refusal = a.refusal || d.Refusal != ""
		for _, name := range thoughtNames {
			var text string
			if json.Unmarshal([]byte(d.JSON.ExtraFields[name].Raw()), &text) == nil && text != "" {
				a.named = name
				c.Thinking = text
				break
			}
		}
		for _, piece := range d.ToolCalls {
			a.piece(piece)
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
	a.text.WriteString(c.Text)
	a.thought.WriteString(c.Thinking)
	return c
}

// piece adds a piece of a call. Some servers number all calls alike, and some of
// those give them no ids either.
func (a *answer) piece(p openai.ChatCompletionChunkChoiceDeltaToolCall) {
	var in *call
	for _, c := range a.calls {
		if c.index == p.Index {
			in = c // the newest of that number
		}
	}
	args := p.Function.Arguments
	if raw := p.Function.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") {
		args = raw // a server that does not put its arguments into a string
	}
	if in == nil || a.begins(in, p, args) {
		in = &call{index: p.Index}
		a.calls = append(a.calls, in)
	}
	if in.id == "" {
		in.id = p.ID
	}
	if p.Function.Name != "" {
		in.name, in.named = p.Function.Name, a.chunks
	}
	in.args.WriteString(args)
}

// begins reports whether a piece is another call's than in's. A call begins with its
// name, which some servers repeat with each piece.
func (a *answer) begins(in *call, p openai.ChatCompletionChunkChoiceDeltaToolCall, args string) bool {
	switch {
	case p.Function.Name == "" || in.name == "":
		return false
	case p.Function.Name != in.name || in.named == a.chunks:
		return true
	case p.ID != "" && in.id != "":
		return p.ID != in.id
	}
	return args != "" && json.Valid([]byte(in.args.String()))
}

// reply is the whole answer. Own are the tools' own names; after says that it comes after
// results, where saying nothing means that there is nothing to add.
func (a *answer) reply(name string, own map[string]string, after bool) (*agent.Reply, error) {
	if a.finish == "" {
		return nil, errBroken
	}
	m := agent.Message{Role: agent.Assistant, Model: name}
	if a.thought.Len() > 0 {
		data, err := json.Marshal(map[string]string{a.named: a.thought.String()})
		if err != nil {
			return nil, fmt.Errorf("keep a thought: %w", err)
		}
		m.Parts = append(m.Parts, agent.Part{Thinking: &agent.Thinking{Text: a.thought.String(), Data: data}})
	}
	if a.text.Len() > 0 {
		m.Parts = append(m.Parts, agent.Part{Text: a.text.String()})
	}
	for i, c := range a.calls {
		args, whole := c.arguments()
		if a.finish == "length" && i == len(a.calls)-1 && !whole {
			continue // it ran into the limit: nobody knows what it would have been
		}
		if c.id == "" {
			c.id = fmt.Sprintf("call_%d", i)
		}
		m.Parts = append(m.Parts, agent.Part{Call: &agent.Call{ID: c.id, Name: cmp.Or(own[c.name], c.name), Args: args}})
	}
	stop := a.stop(len(m.Calls()) > 0)
	switch {
	case stop != agent.StopEnd:
	case a.finish == "tool_calls" || a.finish == "function_call":
		return nil, errNoCalls
	case strings.TrimSpace(a.text.String()) == "" && !after:
		return nil, errEmpty
	}
	return &agent.Reply{Message: m, Stop: stop, Usage: a.usage}, nil
}

// arguments are the arguments as JSON, and whether they are what the model wrote in
// full. What is no JSON becomes a string, which no tool takes, so that the model is
// told.
func (c *call) arguments() (json.RawMessage, bool) {
	text := strings.TrimSpace(c.args.String())
	if text == "" || text == "null" {
		return json.RawMessage("{}"), text != ""
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), true
	}
	return json.RawMessage(quoted(text)), false
}

// stop says why the model stopped. Some servers say "stop" after calls too.
func (a *answer) stop(calls bool) agent.Stop {
	switch {
	case a.finish == "length":
		return agent.StopLength
	case a.finish == "content_filter" || a.refusal:
		return agent.StopRefusal
	case calls:
		return agent.StopTools
	}
	return agent.StopEnd
}
