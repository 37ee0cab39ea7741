package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// geminiPath is the prefix of the paths of the Gemini API, /v1beta/models/MODEL:METHOD.
const geminiPath = "/v1beta/models/"

// geminiMethod returns the model and the method of a path of the Gemini API.
func geminiMethod(path string) (model, method string) {
	rest, ok := strings.CutPrefix(path, geminiPath)
	if !ok {
		return "", ""
	}
	model, method, _ = strings.Cut(rest, ":")
	return model, method
}

// isGenerating reports whether a method of the Gemini API asks for an answer.
func isGenerating(method string) bool {
	return method == "generateContent" || method == "streamGenerateContent"
}

// geminiPart is a part of a content of the Gemini API.
type geminiPart struct {
	Text    string `json:"text,omitempty"`
	Thought bool   `json:"thought,omitempty"`
	Call    *struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall,omitempty"`
	Response *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse,omitempty"`
}

// contentsOf returns the messages of a request of the Gemini API.
func contentsOf(body json.RawMessage) []Message {
	var wire struct {
		Contents []struct {
			Role  string       `json:"role"`
			Parts []geminiPart `json:"parts"`
		} `json:"contents"`
	}
	if json.Unmarshal(body, &wire) != nil {
		return nil
	}
	var all []Message
	for _, c := range wire.Contents {
		m := Message{Role: c.Role}
		if c.Role == "model" {
			m.Role = "assistant"
		}
		for _, p := range c.Parts {
			m.Blocks = append(m.Blocks, p.block())
		}
		all = append(all, m)
	}
	return all
}

func (p geminiPart) block() Block {
	switch {
	case p.Call != nil:
		return Block{Type: "tool_use", ID: p.Call.ID, Name: p.Call.Name, Input: compact(p.Call.Args)}
	case p.Response != nil:
		return Block{Type: "tool_result", ID: p.Response.ID, Text: compact(p.Response.Response)}
	case p.Thought:
		return Block{Type: "thinking", Text: p.Text}
	}
	return Block{Type: "text", Text: p.Text}
}

// serveGemini answers a request for content, or for a count of tokens.
func (s *Server) serveGemini(w http.ResponseWriter, r *http.Request, req Request) {
	model, method := geminiMethod(req.Path)
	if !isGenerating(method) {
		writeJSON(w, http.StatusOK, map[string]any{"totalTokens": tokens(len(req.Body))})
		return
	}
	st, seed, err := s.answerTo(req)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, geminiError(http.StatusBadRequest, err.Error()))
		return
	}
	switch {
	case !pause(r, st):
		return
	case st.Error != 0:
		writeJSON(w, st.Error, geminiError(st.Error, st.message()))
		return
	case st.Drop:
		panic(http.ErrAbortHandler)
	case st.Hang:
		<-r.Context().Done()
		return
	}
	answer := geminiAnswer(st, seed, model, len(req.Body))
	if method == "generateContent" {
		writeJSON(w, http.StatusOK, answer)
		return
	}
	data, err := json.Marshal(answer)
	if err != nil {
		panic(err) // only strings, numbers and JSON already parsed
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\r\n\r\n", data)
}

func geminiAnswer(st step, seed, model string, size int) map[string]any {
	parts := []any{}
	if st.Thinking != "" {
		parts = append(parts, map[string]any{"text": st.Thinking, "thought": true})
	}
	if st.Text != "" {
		parts = append(parts, map[string]any{"text": st.Text})
	}
	for i, c := range st.Tools {
		parts = append(parts, map[string]any{"functionCall": map[string]any{"id": fmt.Sprintf("call_%s%02d", seed, i), "name": c.Tool, "args": c.Input}})
	}
	for _, raw := range st.Raw {
		parts = append(parts, raw)
	}
	in := tokens(size)
	return map[string]any{
		"candidates":    []any{map[string]any{"index": 0, "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": parts}}},
		"usageMetadata": map[string]any{"promptTokenCount": in, "candidatesTokenCount": 1, "totalTokenCount": in + 1},
		"modelVersion":  model, "responseId": "resp_" + seed,
	}
}

func geminiError(status int, message string) map[string]any {
	return map[string]any{"error": map[string]any{"code": status, "message": message, "status": strings.ToUpper(errorType(status))}}
}
