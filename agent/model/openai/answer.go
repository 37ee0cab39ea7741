package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/internal/endpoint"
)

// answer collects the chunks of an answer.
type answer struct {
	model        string
	text         strings.Builder
	thinking     strings.Builder
	thinkingName string // the server's field for thinking
	refusal      bool
	calls        []*call
	chunks       int // received so far
	finish       string
	ended        bool // the server sent its last event
	usage        agent.Usage
}

// call is a call of an answer. Its arguments arrive in pieces.
type call struct {
	index    int
	id, name string
	named    int // the newest chunk that had the name
	args     strings.Builder
}

// Add implements [endpoint.Answer].
func (a *answer) Add(received endpoint.Event) (c agent.Chunk, err error) {
	if bytes.HasPrefix(received.Data, []byte("[DONE]")) {
		a.ended = true
		return c, nil
	}
	var e chunk
	if err := endpoint.Decode(received.Data, &e); err != nil {
		return c, err
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		return c, a.Refusal(received.Data, 0).DuringStream()
	}
	a.chunks++
	if u := e.Usage; u.Prompt > 0 || u.Completion > 0 {
		a.usage = agent.Usage{Input: u.Prompt, Output: u.Completion, CacheRead: u.Details.Cached}
	}
	for _, choice := range e.Choices {
		if choice.Index != 0 {
			continue // the request asks for one
		}
		d := choice.Delta
		if choice.Message != nil {
			d, a.finish = *choice.Message, "stop"
		}
		c.Text += d.Content + d.Refusal
		a.refusal = a.refusal || d.Refusal != ""
		if d.Reasoning != "" {
			a.thinkingName, c.Thinking = "reasoning", d.Reasoning
		}
		if d.ReasoningContent != "" { // servers that send both send the same text in both
			a.thinkingName, c.Thinking = "reasoning_content", d.ReasoningContent
		}
		for _, piece := range d.ToolCalls {
			a.addPiece(piece)
		}
		a.finish = cmp.Or(choice.FinishReason, a.finish)
	}
	a.text.WriteString(c.Text)
	a.thinking.WriteString(c.Thinking)
	return c, nil
}

// addPiece adds a piece of a call. Some servers give all calls the same index, and some of
// those send no ids either.
func (a *answer) addPiece(p callPiece) {
	var current *call
	for _, c := range a.calls {
		if c.index == p.Index {
			current = c // the newest with the index
		}
	}
	args := ""
	if strings.HasPrefix(string(p.Function.Arguments), "{") {
		args = string(p.Function.Arguments) // an object in place of a string
	} else {
		_ = json.Unmarshal(p.Function.Arguments, &args) // null is empty
	}
	if current == nil || a.isNewCall(current, p, args) {
		current = &call{index: p.Index}
		a.calls = append(a.calls, current)
	}
	current.id = cmp.Or(current.id, p.ID)
	if p.Function.Name != "" {
		current.name, current.named = p.Function.Name, a.chunks
	}
	current.args.WriteString(args)
}

// isNewCall reports whether a piece begins another call than the current one. A call begins
// with its name, which some servers repeat in each piece.
func (a *answer) isNewCall(current *call, p callPiece, args string) bool {
	switch {
	case p.Function.Name == "" || current.name == "":
		return false
	case p.Function.Name != current.name || current.named == a.chunks:
		return true
	case p.ID != "" && current.id != "":
		return p.ID != current.id
	}
	return args != "" && json.Valid([]byte(current.args.String()))
}

// Complete implements [endpoint.Answer]. Some servers close the stream without a last event.
func (a *answer) Complete(over bool) bool { return a.finish != "" && (a.ended || over) }

// Reply implements [endpoint.Answer]. It leaves out a call that the limit or a filter truncated,
// because its arguments are unknown.
func (a *answer) Reply() (*agent.Reply, bool, error) {
	m := agent.Message{Role: agent.Assistant, Model: a.model}
	if a.thinking.Len() > 0 {
		data, err := json.Marshal(map[string]string{a.thinkingName: a.thinking.String()})
		if err != nil {
			return nil, false, fmt.Errorf("encode thinking: %w", err)
		}
		m.Parts = append(m.Parts, agent.Part{Thinking: &agent.Thinking{Text: a.thinking.String(), Data: data}})
	}
	if a.text.Len() > 0 {
		m.Parts = append(m.Parts, agent.Part{Text: a.text.String()})
	}
	isCut := a.finish == "length" || a.finish == "content_filter"
	for i, c := range a.calls {
		args, valid := c.arguments()
		if isCut && i == len(a.calls)-1 && !valid {
			continue
		}
		m.Parts = append(m.Parts, agent.Part{Call: &agent.Call{ID: cmp.Or(c.id, fmt.Sprintf("call_%d", i)), Name: c.name, Args: args}})
	}
	wantsTools := a.finish == "tool_calls" || a.finish == "function_call"
	return &agent.Reply{Message: m, Stop: a.stop(len(m.Calls()) > 0), Usage: a.usage}, wantsTools, nil
}

// arguments returns the arguments as JSON, and whether the model wrote valid JSON. Invalid JSON
// becomes a string, which every tool refuses, so the model learns of its error.
func (c *call) arguments() (args json.RawMessage, valid bool) {
	text := strings.TrimSpace(c.args.String())
	if text == "" || text == "null" {
		return json.RawMessage("{}"), text != ""
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), true
	}
	quoted, _ := segno.Encode(text) // a string always encodes
	return quoted, false
}

// stop returns why the model stopped. Some servers send "stop" after calls, too.
func (a *answer) stop(hasCalls bool) agent.Stop {
	switch {
	case a.finish == "length":
		return agent.StopLength
	case a.finish == "content_filter" || a.refusal:
		return agent.StopRefusal
	case hasCalls:
		return agent.StopTools
	}
	return agent.StopEnd
}

// Split implements [endpoint.Answer]. The document is a chunk with messages in place of deltas.
func (a *answer) Split(document json.RawMessage) ([]endpoint.Event, bool) {
	var whole chunk
	if endpoint.Decode(document, &whole) != nil || len(whole.Choices) == 0 || whole.Choices[0].Message == nil {
		return nil, false
	}
	return []endpoint.Event{{Data: document}, {Data: []byte("[DONE]")}}, true
}

// errorFields are the fields of an error, which differ between servers.
type errorFields struct {
	Message, Type string
	Code          any
}

// Refusal implements [endpoint.Answer].
func (a *answer) Refusal(body []byte, status int) *endpoint.StatusError {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var fields struct {
		Error  json.RawMessage
		Detail any
		errorFields
	}
	_ = json.Unmarshal(body, &fields) // a body that is not JSON is shown as it is
	f := fields.errorFields
	text := endpoint.ErrorFields(fields.Error, &f)
	detail, _ := fields.Detail.(string)
	e := &endpoint.StatusError{Status: status, Text: endpoint.ErrorText(cmp.Or(text, f.Message, detail), body, status),
		NoCredit: f.Type == "insufficient_quota" || f.Code == "insufficient_quota"}
	if status == 0 || status == http.StatusInternalServerError {
		e.Status = cmp.Or(f.status(), status)
	}
	if e.Status == http.StatusUnauthorized {
		e.Text = "the server rejected the key" // the server's text may repeat it
	}
	return e
}

// status returns the HTTP status that corresponds to an error's code and type, 0 if none does.
func (f errorFields) status() int {
	code, _ := f.Code.(string)
	number, ok := f.Code.(float64)
	if !ok {
		number, _ = strconv.ParseFloat(code, 64) // 0 for a name
	}
	if number >= 400 && number < 600 {
		return int(number)
	}
	name := strings.ToLower(f.Type + " " + code)
	for _, row := range []struct {
		part   string
		status int
	}{
		{"rate_limit", http.StatusTooManyRequests}, {"insufficient_quota", http.StatusTooManyRequests},
		{"invalid_request", http.StatusBadRequest}, {"context_length", http.StatusBadRequest},
		{"overloaded", http.StatusServiceUnavailable}, {"unavailable", http.StatusServiceUnavailable},
		{"server_error", http.StatusInternalServerError}, {"internalservererror", http.StatusInternalServerError},
	} {
		if strings.Contains(name, row.part) {
			return row.status
		}
	}
	return 0
}
