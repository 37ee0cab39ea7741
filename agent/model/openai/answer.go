package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/endpoint"
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
	ended   bool // nothing comes after it
	usage   agent.Usage
}

// call is a call in the making: its arguments come in pieces.
type call struct {
	index    int
	id, name string
	named    int // the chunk in which the name came last
	args     strings.Builder
}

var (
	errBroken  = errors.New("the answer broke off") // in its midst
	errEmpty   = errors.New("the answer says nothing")
	errNoCalls = errors.New("the answer says that it calls tools, and calls none")
)

// add takes in what came, and returns what of it is to be told at once.
func (a *answer) add(came endpoint.Event, header http.Header) (c agent.Chunk, err error) {
	if bytes.HasPrefix(came.Data, []byte("[DONE]")) {
		a.ended = true
		return c, nil
	}
	var e chunk
	if err := endpoint.Decode(came.Data, &e); err != nil {
		return c, fmt.Errorf("%w: %w: %s", errBroken, err, came.Data)
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		no := &statusError{header: header, reason: reasonOf(came.Data, 0)}
		no.code = cmp.Or(no.code, http.StatusInternalServerError)
		return c, no
	}
	a.chunks++
	if u := e.Usage; u.Prompt > 0 || u.Completion > 0 {
		a.usage = agent.Usage{Input: u.Prompt, Output: u.Completion, CacheRead: u.Details.Cached}
	}
	for _, choice := range e.Choices {
		if choice.Index != 0 {
			continue // only one was asked for
		}
		d := choice.Delta
		c.Text += d.Content + d.Refusal
		a.refusal = a.refusal || d.Refusal != ""
		if d.Reasoning != "" {
			a.named, c.Thinking = "reasoning", d.Reasoning
		}
		if d.ReasoningContent != "" { // servers that have both say the same in both
			a.named, c.Thinking = "reasoning_content", d.ReasoningContent
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
	return c, nil
}

// piece adds a piece of a call. Some servers number all calls alike, and some of
// those give them no ids either.
func (a *answer) piece(p callPiece) {
	var in *call
	for _, c := range a.calls {
		if c.index == p.Index {
			in = c // the newest of that number
		}
	}
	args := ""
	if strings.HasPrefix(string(p.Function.Arguments), "{") {
		args = string(p.Function.Arguments) // a server that does not put its arguments into a string
	} else {
		_ = json.Unmarshal(p.Function.Arguments, &args) // none if it is null
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
func (a *answer) begins(in *call, p callPiece, args string) bool {
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
