package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// stream writes server-sent events. It flushes each, so that a client under test can
// receive a part of an answer.
type stream struct {
	w       http.ResponseWriter
	started bool
}

func newStream(w http.ResponseWriter) *stream { return &stream{w: w} }

func (s *stream) send(event string, v map[string]any) {
	if !s.started {
		s.started = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
		s.w.WriteHeader(http.StatusOK)
	}
	v["type"] = event
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings, numbers and JSON already parsed
	}
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, data)
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// streamMessage sends msg as the stream of the Messages API.
func streamMessage(out *stream, r *http.Request, st step, msg anthropicMessage) {
	if st.Hang && st.Text == "" {
		<-r.Context().Done()
		return
	}
	opening := msg
	opening.Content, opening.StopReason = []json.RawMessage{}, nil
	opening.Usage.OutputTokens = 1
	out.send("message_start", map[string]any{"message": opening})
	out.send("ping", map[string]any{})
	if st.Drop || st.Hang {
		streamPart(out, r, st)
		return
	}
	for i, raw := range msg.Content {
		streamBlock(out, i, raw)
	}
	out.send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": msg.StopReason, "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": msg.Usage.OutputTokens},
	})
	out.send("message_stop", map[string]any{})
}

// streamPart sends the beginning of an answer that never ends.
func streamPart(out *stream, r *http.Request, st step) {
	text := st.Text
	if st.Drop {
		text = text[:len(text)/2]
	}
	out.send("content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
	out.send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": text}})
	if st.Drop {
		panic(http.ErrAbortHandler) // net/http's way to break a connection
	}
	<-r.Context().Done()
}

// streamBlock sends one content block: an empty block, its content, its end.
func streamBlock(out *stream, index int, raw json.RawMessage) {
	start := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &start); err != nil {
		panic(err) // scripted blocks are objects by now
	}
	kind := blockOf(raw).Type
	field, delta, name := "", "", ""
	switch kind {
	case "text":
		field, delta, name = "text", "text_delta", "text"
	case "thinking":
		field, delta, name = "thinking", "thinking_delta", "thinking"
	case "tool_use":
		field, delta, name = "input", "input_json_delta", "partial_json"
	}
	signature := start["signature"]
	filling := start[field]
	if field == "input" {
		start[field] = json.RawMessage("{}")
		filling, _ = json.Marshal(string(filling)) // a string always encodes
	} else if field != "" {
		start[field] = json.RawMessage(`""`)
	}
	if signature != nil {
		start["signature"] = json.RawMessage(`""`)
	}
	out.send("content_block_start", map[string]any{"index": index, "content_block": start})
	if field != "" {
		out.send("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": delta, name: filling}})
	}
	if signature != nil {
		out.send("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": "signature_delta", "signature": signature}})
	}
	out.send("content_block_stop", map[string]any{"index": index})
}
