package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/internal/endpoint"
)

// answer collects the events of an answer.
type answer struct {
	model  string
	blocks []*answerBlock
	stop   string
	usage  usage
	ended  bool
}

// answerBlock is a block of an answer, as far as it has arrived.
type answerBlock struct {
	Type, Text, Thinking, Signature string
	ID, Name                        string
	Input                           json.RawMessage

	raw      json.RawMessage // as the block began
	args     []byte          // the pieces of its input
	complete bool            // the block ended and its input is valid
}

// Add implements [endpoint.Answer].
func (a *answer) Add(received endpoint.Event) (c agent.Chunk, err error) {
	var e event
	if err := endpoint.Decode(received.Data, &e); err != nil {
		return c, err
	}
	switch e.Type = cmp.Or(e.Type, received.Type); e.Type {
	case "error":
		return c, a.Refusal(received.Data, 0).DuringStream()
	case "message_start":
		a.stop = e.Message.StopReason
		a.count(e.Message.Usage)
	case "content_block_start", "content_block_delta", "content_block_stop":
		return a.addBlock(&e)
	case "message_delta":
		a.stop = e.Delta.StopReason
		a.count(e.Usage)
	case "message_stop":
		a.ended = true
	}
	return c, nil
}

// count updates the usage. Malformed totals do not fail the answer.
func (a *answer) count(totals json.RawMessage) { _ = json.Unmarshal(totals, &a.usage) }

// addBlock adds an event of a block. Blocks begin in order.
func (a *answer) addBlock(e *event) (chunk agent.Chunk, err error) {
	if e.Type == "content_block_start" {
		b := &answerBlock{raw: e.Block}
		if err := endpoint.Decode(e.Block, b); err != nil || e.Index != len(a.blocks) {
			return chunk, fmt.Errorf("%w: block %d begins after %d others", endpoint.ErrTruncated, e.Index, len(a.blocks))
		}
		a.blocks = append(a.blocks, b)
		return agent.Chunk{Text: b.Text, Thinking: b.Thinking}, nil
	}
	if e.Index < 0 || e.Index >= len(a.blocks) {
		return chunk, fmt.Errorf("%w: unknown block %d", endpoint.ErrTruncated, e.Index)
	}
	b := a.blocks[e.Index]
	if e.Type == "content_block_stop" {
		if len(b.args) > 0 {
			b.Input = b.args
		}
		b.complete = b.Type != "tool_use" || json.Valid(b.Input)
		return chunk, nil
	}
	b.Text += e.Delta.Text
	b.Thinking += e.Delta.Thinking
	b.Signature += e.Delta.Signature
	b.args = append(b.args, e.Delta.PartialJSON...)
	return agent.Chunk{Text: e.Delta.Text, Thinking: e.Delta.Thinking}, nil
}

// thinking returns a block of thinking as the API expects it back.
func (b *answerBlock) thinking() (json.RawMessage, error) {
	if b.Type != "thinking" {
		return b.raw, nil
	}
	var fields map[string]any
	if err := json.Unmarshal(b.raw, &fields); err != nil {
		return nil, fmt.Errorf("decode thinking: %w", err)
	}
	fields["thinking"] = b.Thinking
	if b.Signature != "" {
		fields["signature"] = b.Signature
	}
	return segno.Encode(fields)
}

// Complete implements [endpoint.Answer].
func (a *answer) Complete(bool) bool { return a.ended }

// Reply implements [endpoint.Answer]. It leaves out a call that the limit or a refusal truncated,
// because its arguments are unknown.
func (a *answer) Reply() (*agent.Reply, bool, error) {
	m := agent.Message{Role: agent.Assistant, Model: a.model}
	stop := stopOf(a.stop)
	isCut := stop == agent.StopLength || stop == agent.StopRefusal
	for i, b := range a.blocks {
		switch b.Type {
		case "text":
			if b.Text != "" {
				m.Parts = append(m.Parts, agent.Part{Text: b.Text})
			}
		case "thinking", "redacted_thinking":
			data, err := b.thinking()
			if err != nil {
				return nil, false, err
			}
			m.Parts = append(m.Parts, agent.Part{Thinking: &agent.Thinking{Text: b.Thinking, Data: data}})
		case "tool_use":
			// The call may be cut before the first byte of its arguments. The block then has the empty object that it began with.
			hasArgs := len(b.args) > 0 || string(b.Input) != "{}" || i < len(a.blocks)-1
			switch {
			case b.complete && (hasArgs || !isCut):
				m.Parts = append(m.Parts, agent.Part{Call: &agent.Call{ID: b.ID, Name: b.Name, Args: b.Input}})
			case !isCut:
				return nil, false, fmt.Errorf("%w: the arguments of %s are not JSON", endpoint.ErrTruncated, b.Name)
			}
		}
	}
	u := a.usage
	return &agent.Reply{Message: m, Stop: stop, Usage: agent.Usage{
		Input: u.Input + u.CacheRead + u.CacheWrite, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
	}}, stop == agent.StopTools, nil
}

// stopOf returns why the model stopped. A pause counts as a limit: the answer would continue.
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

// Split implements [endpoint.Answer].
func (a *answer) Split(document json.RawMessage) (events []endpoint.Event, ok bool) {
	var message map[string]json.RawMessage
	var blocks []json.RawMessage
	_ = json.Unmarshal(document, &message)
	if string(message["type"]) != `"message"` || json.Unmarshal(message["content"], &blocks) != nil {
		return nil, false
	}
	delta := map[string]json.RawMessage{"stop_reason": message["stop_reason"]}
	if stop := string(delta["stop_reason"]); stop == "" || stop == "null" {
		delta["stop_reason"] = json.RawMessage(`"end_turn"`)
	}
	message["content"] = json.RawMessage("[]")
	all := []map[string]any{{"type": "message_start", "message": message}}
	for i, b := range blocks {
		all = append(all, map[string]any{"type": "content_block_start", "index": i, "content_block": b},
			map[string]any{"type": "content_block_stop", "index": i})
	}
	all = append(all, map[string]any{"type": "message_delta", "delta": delta, "usage": message["usage"]}, map[string]any{"type": "message_stop"})
	for _, e := range all {
		data, err := json.Marshal(e)
		if err != nil {
			return nil, false
		}
		events = append(events, endpoint.Event{Data: data})
	}
	return events, true
}

// statuses are the HTTP statuses that the API's error types correspond to.
var statuses = map[string]int{
	"overloaded_error":      529,
	"rate_limit_error":      http.StatusTooManyRequests,
	"timeout_error":         http.StatusGatewayTimeout,
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
}

// Refusal implements [endpoint.Answer].
func (a *answer) Refusal(body []byte, status int) *endpoint.StatusError {
	var fields struct {
		Error   json.RawMessage
		Message string
	}
	var d struct{ Type, Message string }
	_ = json.Unmarshal(body, &fields) // a body that is not JSON is shown as it is
	text := endpoint.ErrorFields(fields.Error, &d)
	if d.Message != "" {
		text = strings.TrimPrefix(d.Type+": "+d.Message, ": ")
	}
	e := &endpoint.StatusError{Status: cmp.Or(status, statuses[d.Type]), Text: endpoint.ErrorText(cmp.Or(text, fields.Message), body, status)}
	e.NoCredit = strings.Contains(strings.ToLower(e.Text), "credit balance")
	return e
}

// refusesThinking reports whether the API refused a request because of thinking that is in it
// or that is missing. Thinking depends on all earlier messages.
func refusesThinking(err error) bool {
	var refused *endpoint.StatusError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		return false
	}
	for _, part := range []string{
		"`signature` in `thinking`", "prefix_mismatch_behavior", // an earlier message has changed
		"must start with a thinking block", // another model made the calls of this turn
		"cannot contain `thinking`",        // thinking was enabled when the turn began and is not now
		"latest assistant message cannot be modified",
	} {
		if strings.Contains(refused.Text, part) {
			return true
		}
	}
	return false
}
