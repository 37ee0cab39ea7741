package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// wireItem is an item of the Responses API, in inputs and outputs.
type wireItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
}

// inputOf groups items into messages. This API has one list of items where the Messages API
// has messages of blocks, and one model call adds several items.
func inputOf(body json.RawMessage) []Message {
	var wire struct {
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(body, &wire) != nil {
		return nil
	}
	var text string
	if json.Unmarshal(wire.Input, &text) == nil {
		return []Message{{Role: "user", Blocks: []Block{{Type: "text", Text: text}}}}
	}
	var items []json.RawMessage
	if json.Unmarshal(wire.Input, &items) != nil {
		return nil
	}
	var all []Message
	for _, raw := range items {
		role, blocks := itemOf(raw)
		if i := belongsTo(all, role, blocks); i >= 0 {
			all[i].Blocks = append(all[i].Blocks, blocks...)
			continue
		}
		all = append(all, Message{Role: role, Blocks: blocks})
	}
	return all
}

// belongsTo returns the index of the message of which an item is a part, or -1. Parallel
// calls belong together even if a result arrived before the next of them: their ids differ
// only in the last two digits.
func belongsTo(all []Message, role string, blocks []Block) int {
	last := len(all) - 1
	if last < 0 || len(blocks) == 0 {
		return -1
	}
	if all[last].Role == role && (role == "assistant" || isResult(blocks) && isResult(all[last].Blocks)) {
		return last
	}
	if id := blocks[0].ID; role == "assistant" && len(id) > 2 {
		for i := last; i >= 0; i-- {
			for _, b := range all[i].Blocks {
				if b.Type == "tool_use" && len(b.ID) == len(id) && b.ID[:len(id)-2] == id[:len(id)-2] {
					return i
				}
			}
		}
	}
	return -1
}

func isResult(blocks []Block) bool { return len(blocks) > 0 && blocks[0].Type == "tool_result" }

func itemOf(raw json.RawMessage) (role string, blocks []Block) {
	var w wireItem
	if json.Unmarshal(raw, &w) != nil {
		return "user", []Block{{Text: compact(raw)}}
	}
	switch w.Type {
	case "message", "":
		return w.Role, textBlocks("text", w.Content)
	case "reasoning":
		return "assistant", textBlocks("thinking", w.Summary)
	case "function_call":
		return "assistant", []Block{{Type: "tool_use", ID: w.CallID, Name: w.Name, Input: compact(json.RawMessage(w.Arguments))}}
	case "custom_tool_call":
		return "assistant", []Block{{Type: "tool_use", ID: w.CallID, Name: w.Name, Input: w.Input}}
	case "function_call_output", "custom_tool_call_output":
		b := Block{Type: "tool_result", ID: w.CallID}
		for _, part := range textBlocks("text", w.Output) {
			b.Text += part.Text
		}
		return "user", []Block{b}
	}
	return "assistant", []Block{{Type: w.Type, Text: compact(raw)}}
}

// textBlocks decodes a string or a list of parts with a text. The type of a part may be
// any, such as input_text, output_text or summary_text.
func textBlocks(kind string, content json.RawMessage) []Block {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []Block{{Type: kind, Text: text}}
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts) // parts without a text stay empty
	var blocks []Block
	for _, p := range parts {
		blocks = append(blocks, Block{Type: kind, Text: p.Text})
	}
	return blocks
}

// serveResponses answers POST /v1/responses.
func (s *Server) serveResponses(w http.ResponseWriter, r *http.Request, req Request) {
	st, seed, err := s.answerTo(req)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, openaiError("invalid_request_error", err.Error()))
		return
	}
	if !pause(r, st) {
		return
	}
	if st.Error != 0 {
		writeJSON(w, st.Error, openaiError(errorType(st.Error), st.message()))
		return
	}
	if st.Hang && (st.Text == "" || !req.Stream) {
		<-r.Context().Done()
		return
	}
	resp := map[string]any{"id": "resp_" + seed, "object": "response", "model": req.Model, "status": "in_progress", "output": []any{}}
	items := outputItems(st, seed)
	if req.Stream {
		streamResponse(newStream(w), r, st, resp, items, req)
		return
	}
	if st.Drop {
		panic(http.ErrAbortHandler)
	}
	complete(resp, items, req)
	writeJSON(w, http.StatusOK, resp)
}

func streamResponse(out *stream, r *http.Request, st step, resp map[string]any, items []any, req Request) {
	out.send("response.created", map[string]any{"response": resp})
	for i, item := range items {
		out.send("response.output_item.added", map[string]any{"output_index": i, "item": item})
		if m, ok := item.(map[string]any); ok && m["type"] == "message" {
			text := st.Text
			if st.Drop {
				text = text[:len(text)/2]
			}
			out.send("response.output_text.delta", map[string]any{"output_index": i, "content_index": 0, "item_id": m["id"], "delta": text})
			if st.Hang {
				<-r.Context().Done()
				return
			}
		}
		if st.Drop {
			break
		}
		out.send("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	if st.Drop {
		panic(http.ErrAbortHandler)
	}
	complete(resp, items, req)
	out.send("response.completed", map[string]any{"response": resp})
}

func complete(resp map[string]any, items []any, req Request) {
	in := tokens(len(req.Body))
	resp["status"], resp["output"] = "completed", items
	resp["usage"] = map[string]any{
		"input_tokens": in, "input_tokens_details": map[string]any{"cached_tokens": 0},
		"output_tokens": 1, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
		"total_tokens": in + 1,
	}
}

// outputItems returns the output items of a step. If the input is a JSON string, the item
// calls a tool with free-form input.
func outputItems(st step, seed string) []any {
	items := []any{}
	if st.Empty {
		return items
	}
	if st.Thinking != "" {
		items = append(items, map[string]any{"type": "reasoning", "id": "rs_" + seed,
			"summary": []any{map[string]any{"type": "summary_text", "text": st.Thinking}}})
	}
	if st.Text != "" {
		items = append(items, map[string]any{"type": "message", "id": "msg_" + seed, "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": st.Text, "annotations": []any{}}}})
	}
	for i, c := range st.Tools {
		call := map[string]any{"id": fmt.Sprintf("fc_%s%02d", seed, i), "call_id": fmt.Sprintf("call_%s%02d", seed, i), "name": c.Tool, "status": "completed"}
		var free string
		if strings.HasPrefix(string(c.Input), `"`) && json.Unmarshal(c.Input, &free) == nil {
			call["type"], call["input"] = "custom_tool_call", free
		} else {
			call["type"], call["arguments"] = "function_call", compact(c.Input)
		}
		items = append(items, call)
	}
	for _, raw := range st.Raw {
		items = append(items, raw)
	}
	return items
}

func openaiError(kind, message string) map[string]any {
	return map[string]any{"error": map[string]any{"type": kind, "code": kind, "message": message}}
}
