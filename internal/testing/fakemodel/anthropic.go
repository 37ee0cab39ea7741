package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

// wireBlock is a content block of the Messages API, in requests and answers.
type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func messagesOf(body json.RawMessage) []Message {
	var wire struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &wire) != nil {
		return nil
	}
	var all []Message
	for _, m := range wire.Messages {
		all = append(all, Message{Role: m.Role, Blocks: blocksOf(m.Content)})
	}
	return all
}

// blocksOf decodes a content field, which is a string or a list of blocks.
func blocksOf(content json.RawMessage) []Block {
	var text string
	if json.Unmarshal(content, &text) == nil && text != "" {
		return []Block{{Type: "text", Text: text}}
	}
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	var blocks []Block
	for _, raw := range list {
		blocks = append(blocks, blockOf(raw))
	}
	return blocks
}

func blockOf(raw json.RawMessage) Block {
	var w wireBlock
	if err := json.Unmarshal(raw, &w); err != nil {
		return Block{Text: compact(raw)}
	}
	switch w.Type {
	case "text":
		return Block{Type: w.Type, Text: w.Text}
	case "thinking":
		return Block{Type: w.Type, Text: w.Thinking}
	case "tool_use":
		return Block{Type: w.Type, ID: w.ID, Name: w.Name, Input: compact(w.Input)}
	case "tool_result":
		b := Block{Type: w.Type, ID: w.ToolUseID, Error: w.IsError}
		for i, part := range blocksOf(w.Content) {
			if i > 0 {
				b.Text += "\n"
			}
			b.Text += part.Text
		}
		return b
	}
	return Block{Type: w.Type, Text: compact(raw)}
}

// serveMessages answers POST /v1/messages.
func (s *Server) serveMessages(w http.ResponseWriter, r *http.Request, req Request) {
	st, seed, err := s.answerTo(req)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, anthropicError("invalid_request_error", err.Error()))
		return
	}
	if !pause(r, st) {
		return
	}
	if st.Error != 0 {
		writeJSON(w, st.Error, anthropicError(errorType(st.Error), st.message()))
		return
	}
	msg := newAnthropicMessage(st, seed, req)
	if req.Stream {
		streamMessage(newStream(w), r, st, msg)
		return
	}
	switch {
	case st.Drop:
		panic(http.ErrAbortHandler)
	case st.Hang:
		<-r.Context().Done()
	default:
		writeJSON(w, http.StatusOK, msg)
	}
}

// pause waits until a step may be answered, and reports whether the client is still connected.
func pause(r *http.Request, st step) bool {
	for {
		wait := st.delay()
		if st.delay() <= 0 {
			if _, err := os.Lstat(st.Until); st.Until == "" || err == nil {
				return true
			}
			wait = untilEvery
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			st.Delay = 0
		case <-r.Context().Done():
			t.Stop()
			return false
		}
	}
}

// untilEvery is the interval at which a server checks for the file of a step.
const untilEvery = 10 * time.Millisecond

func (s step) message() string {
	if s.Message != "" {
		return s.Message
	}
	return fmt.Sprintf("scripted error %d", s.Error)
}

func anthropicError(kind, message string) map[string]any {
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}}
}

func errorType(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_request_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	return "api_error"
}

type anthropicMessage struct {
	ID           string            `json:"id"`
	Type         string            `json:"type"`
	Role         string            `json:"role"`
	Model        string            `json:"model"`
	Content      []json.RawMessage `json:"content"`
	StopReason   *string           `json:"stop_reason"`
	StopSequence *string           `json:"stop_sequence"`
	Usage        anthropicUsage    `json:"usage"`
}

type anthropicUsage struct {
	InputTokens         int `json:"input_tokens"`
	CacheCreationTokens int `json:"cache_creation_input_tokens"`
	CacheReadTokens     int `json:"cache_read_input_tokens"`
	OutputTokens        int `json:"output_tokens"`
}

func newAnthropicMessage(st step, seed string, req Request) anthropicMessage {
	content := anthropicContent(st, seed)
	stop := "end_turn"
	if len(st.Tools) > 0 {
		stop = "tool_use"
	}
	for _, raw := range st.Raw {
		if blockOf(raw).Type == "tool_use" {
			stop = "tool_use"
		}
	}
	if st.Stop != "" {
		stop = st.Stop
	}
	size := 0
	for _, b := range content {
		size += len(b)
	}
	return anthropicMessage{
		ID: "msg_" + seed, Type: "message", Role: "assistant", Model: req.Model,
		Content: content, StopReason: &stop,
		Usage: anthropicUsage{InputTokens: tokens(len(req.Body)), OutputTokens: tokens(size)},
	}
}

func anthropicContent(st step, seed string) []json.RawMessage {
	content := []json.RawMessage{}
	if st.Empty {
		return content
	}
	add := func(v map[string]any) {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err) // only strings and JSON already parsed
		}
		content = append(content, raw)
	}
	if st.Thinking != "" {
		add(map[string]any{"type": "thinking", "thinking": st.Thinking, "signature": "sig" + seed})
	}
	if st.Text != "" {
		add(map[string]any{"type": "text", "text": st.Text})
	}
	for i, c := range st.Tools {
		add(map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%s%02d", seed, i), "name": c.Tool, "input": c.Input})
	}
	return append(content, st.Raw...)
}
