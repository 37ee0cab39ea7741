package fakemodel

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

const (
	pathMessages    = "/v1/messages"
	pathCountTokens = "/v1/messages/count_tokens"
	pathResponses   = "/v1/responses"
)

// Request is one logged HTTP request.
type Request struct {
	Seq    int // place in the log, from 0
	Method string
	Path   string // without the query
	Header http.Header
	Body   json.RawMessage // nil if there was none or it was not JSON
	Model  string
	Stream bool

	// Side marks a model call for the agent's own purposes: a title, a warm-up, a
	// compaction.
	Side bool
}

// Message is one message of a conversation, in a form in which a test can compare two
// requests or two APIs.
type Message struct {
	Role   string // user, assistant, system or developer
	Blocks []Block
}

// Block is one part of a message. Fields that do not belong to its type are empty.
type Block struct {
	Type  string // text, thinking, tool_use, tool_result, or the API's own name for anything else
	Text  string // of a text, a thought or a result; for an unknown type, its JSON
	ID    string // of a tool_use, or of the call that a tool_result answers
	Name  string // of the tool
	Input string // compact JSON with the keys in the received order, because their order is part of a prompt
	Error bool   // of a tool_result
}

// Call reports whether r is a model call of the conversation itself.
func (r Request) Call() bool {
	_, method := geminiMethod(r.Path)
	return r.Method == http.MethodPost && !r.Side && (r.Path == pathMessages || r.Path == pathResponses || isGenerating(method))
}

// Messages returns the conversation in r, without cache marks and other parts that do not
// reach the model. It is nil for a request without a conversation.
func (r Request) Messages() []Message {
	switch r.Path {
	case pathMessages, pathCountTokens:
		return messagesOf(r.Body)
	case pathResponses:
		return inputOf(r.Body)
	}
	return contentsOf(r.Body)
}

// System returns the system prompt's text.
func (r Request) System() string {
	var body struct {
		System       json.RawMessage `json:"system"`
		Instructions string          `json:"instructions"`
	}
	_ = json.Unmarshal(r.Body, &body) // an invalid body has no system prompt
	if body.Instructions != "" {
		return body.Instructions
	}
	return Message{Blocks: blocksOf(body.System)}.Text()
}

// Results returns the tool results in r, oldest first.
func (r Request) Results() []Block {
	var all []Block
	for _, m := range r.Messages() {
		for _, b := range m.Blocks {
			if b.Type == "tool_result" {
				all = append(all, b)
			}
		}
	}
	return all
}

// HasText reports whether a text of the conversation contains s.
func (r Request) HasText(s string) bool {
	for _, m := range r.Messages() {
		if strings.Contains(m.Text(), s) {
			return true
		}
	}
	return false
}

// Text returns the message's text blocks, joined by newlines.
func (m Message) Text() string {
	var texts []string
	for _, b := range m.Blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func newRequest(r *http.Request, body []byte) Request {
	req := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone()}
	if !json.Valid(body) {
		return req
	}
	req.Body = body
	var peek struct {
		Model     string            `json:"model"`
		Stream    bool              `json:"stream"`
		MaxTokens int               `json:"max_tokens"`
		Tools     []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(body, &peek) // a value that is not an object has none of these fields
	req.Model, req.Stream = peek.Model, peek.Stream
	// A call for the agent's own purposes offers no tools; a turn does. A compaction is the
	// exception: agents send it like a turn, so that it hits the prompt cache.
	req.Side = req.Path == pathCountTokens ||
		req.Path == pathMessages && (len(peek.Tools) == 0 || peek.MaxTokens == 1 || compactionOf(req.Messages()) != "") ||
		req.Path == pathResponses && isTitleRequest(req.Messages()) ||
		strings.HasPrefix(req.Path, geminiPath) && len(peek.Tools) == 0
	return req
}

// compact returns raw without insignificant space. The order of the keys stays.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
