package anthropic

import (
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
	content []*content
	stop    string
	usage   usage
	ended   bool
}

// content is a block of an answer in the making.
type content struct {
	Type, Text, Thinking, Signature string
	ID, Name                        string
	Input                           json.RawMessage

	raw  json.RawMessage // as it began
	args []byte          // the pieces of its input
	done bool            // it ended, and with arguments that are JSON if it is a call
}

var (
	errBroken  = errors.New("the answer broke off") // in its midst
	errEmpty   = errors.New("the answer says nothing")
	errNoCalls = errors.New("the answer says that it calls tools, and calls none")
)

// add takes in what came, and returns what of it is to be told at once.
func (a *answer) add(came endpoint.Event, header http.Header) (c agent.Chunk, err error) {
	var e event
	if err := endpoint.Decode(came.Data, &e); err != nil {
		return c, fmt.Errorf("%w: %w: %s", errBroken, err, came.Data)
	}
	switch e.Type = cmp.Or(e.Type, came.Type); e.Type {
	case "error":
		no := &statusError{header: header, reason: reasonOf(came.Data, 0)}
		no.code = cmp.Or(no.code, http.StatusInternalServerError)
		return c, no
	case "message_start":
		a.stop = e.Message.StopReason
		a.count(e.Message.Usage)
	case "content_block_start", "content_block_delta", "content_block_stop":
		return a.addContent(&e)
	case "message_delta":
		a.stop = e.Delta.StopReason
		a.count(e.Usage)
	case "message_stop":
		a.ended = true
	}
	return c, nil
}

// count takes in totals. Wrong ones spoil no answer.
func (a *answer) count(totals json.RawMessage) { _ = json.Unmarshal(totals, &a.usage) }

// addContent takes in an event of a block. Blocks begin in order.
func (a *answer) addContent(e *event) (chunk agent.Chunk, err error) {
	if e.Type == "content_block_start" {
		b := &content{raw: e.Block}
		if err := endpoint.Decode(e.Block, b); err != nil || e.Index != len(a.content) {
			return chunk, fmt.Errorf("%w: block %d begins after %d others", errBroken, e.Index, len(a.content))
		}
		a.content = append(a.content, b)
		return agent.Chunk{Text: b.Text, Thinking: b.Thinking}, nil
	}
	if e.Index < 0 || e.Index >= len(a.content) {
		return chunk, fmt.Errorf("%w: more of block %d, which never began", errBroken, e.Index)
	}
	b := a.content[e.Index]
	if e.Type == "content_block_stop" {
		if len(b.args) > 0 {
			b.Input = b.args
		}
		b.done = b.Type != "tool_use" || json.Valid(b.Input)
		return chunk, nil
	}
	b.Text += e.Delta.Text
	b.Thinking += e.Delta.Thinking
	b.Signature += e.Delta.Signature
	b.args = append(b.args, e.Delta.PartialJSON...)
	return agent.Chunk{Text: e.Delta.Text, Thinking: e.Delta.Thinking}, nil
}

// thought is a block of thinking as the API wants it back.
func (b *content) thought() (json.RawMessage, error) {
	if b.Type != "thinking" {
		return b.raw, nil
	}
	var fields map[string]any
	if err := json.Unmarshal(b.raw, &fields); err != nil {
		return nil, fmt.Errorf("keep a thought: %w", err)
	}
	fields["thinking"] = b.Thinking
	if b.Signature != "" {
		fields["signature"] = b.Signature
	}
	data, err := endpoint.JSON(fields)
	if err != nil {
		return nil, fmt.Errorf("keep a thought: %w", err)
	}
	return data, nil
}

// reply is the whole answer. A call that ran into the limit is left out: nobody knows
// what its arguments would have been. Own are the tools' own names; after says that it
// comes after results, where saying nothing means that there is nothing to add.
func (a *answer) reply(name string, own map[string]string, after bool) (*agent.Reply, error) {
	if !a.ended {
		return nil, errBroken
	}
	m := agent.Message{Role: agent.Assistant, Model: name}
	stop := stopOf(a.stop)
	for _, b := range a.content {
		switch b.Type {
		case "text":
			if b.Text != "" {
				m.Parts = append(m.Parts, agent.Part{Text: b.Text})
			}
		case "thinking", "redacted_thinking":
			data, err := b.thought()
			if err != nil {
				return nil, err
			}
			m.Parts = append(m.Parts, agent.Part{Thinking: &agent.Thinking{Text: b.Thinking, Data: data}})
		case "tool_use":
			switch {
			case b.done:
				m.Parts = append(m.Parts, agent.Part{Call: &agent.Call{ID: b.ID, Name: cmp.Or(own[b.Name], b.Name), Args: b.Input}})
			case stop != agent.StopLength:
				return nil, fmt.Errorf("%w: the arguments of %s are not JSON", errBroken, b.Name)
			}
		}
	}
	switch calls := len(m.Calls()) > 0; {
	case calls || stop == agent.StopLength || stop == agent.StopRefusal:
	case stop == agent.StopTools:
		return nil, errNoCalls
	case strings.TrimSpace(m.Text()) == "" && !after:
		return nil, errEmpty
	}
	u := a.usage
	return &agent.Reply{Message: m, Stop: stop, Usage: agent.Usage{
		Input: u.Input + u.CacheRead + u.CacheWrite, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
	}}, nil
}

// stopOf says why the model stopped. A pause is a limit too: the answer would go on.
func stopOf(reason string) agent.Stop {
	switch reason {
	case "tool_use":
		return agent.StopTools
	case "max_tokens", "model_context_window_exceeded", "pause_turn":
		return agent.StopLength
	case "refusal":
		return agent.StopRefusal
	}
	return agent.StopEnd
}
