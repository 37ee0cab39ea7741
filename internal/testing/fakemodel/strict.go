package fakemodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"  // decoders
	_ "image/jpeg" // register
	_ "image/png"  // themselves
	"net/http"
	"slices"
)

// Strict makes the server answer a model call with status 400 if its messages break one of the rules
// that the real APIs enforce: each call of a tool has one result in the next message, ids of calls
// are unique, texts are not empty, thinking is signed, and images are of the declared type and
// within the limits.
func (s *Server) Strict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isStrict = true
}

// Rejected returns why the rules of [Server.Strict] rejected model calls so far.
func (s *Server) Rejected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rejected)
}

// reject answers a request with status 400 if it breaks a rule, and reports whether it does.
func (s *Server) reject(w http.ResponseWriter, r Request) bool {
	why := messagesProblem(r.Body)
	if r.Path == pathResponses {
		why = responsesProblem(r.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isStrict || why == "" {
		return false
	}
	s.rejected = append(s.rejected, why)
	writeJSON(w, http.StatusBadRequest, anthropicError("invalid_request_error", why))
	return true
}

// strictBlock is a content block with the fields that the checks need.
type strictBlock struct {
	wireBlock
	Signature string `json:"signature"`
	Source    struct {
		Type  string `json:"type"`
		Media string `json:"media_type"`
		Data  string `json:"data"`
	} `json:"source"`
}

func messagesProblem(body json.RawMessage) string {
	var wire struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return err.Error()
	}
	c := &strictCheck{calls: map[string]bool{}}
	for i, m := range wire.Messages {
		var blocks []strictBlock
		if len(m.Content) > 0 && m.Content[0] == '[' {
			if err := json.Unmarshal(m.Content, &blocks); err != nil {
				return fmt.Sprintf("messages.%d: %v", i, err)
			}
		}
		if why := c.message(m.Role, blocks); why != "" {
			return fmt.Sprintf("messages.%d.%s", i, why)
		}
	}
	if len(c.open) > 0 {
		return "`tool_use` ids were found without `tool_result` blocks immediately after"
	}
	return c.imageProblem()
}

// strictCheck checks messages one after another.
type strictCheck struct {
	calls  map[string]bool
	open   map[string]bool // the calls of the previous message that have no result so far
	images []strictBlock
}

func (c *strictCheck) message(role string, blocks []strictBlock) string {
	if role == "assistant" && len(c.open) > 0 {
		return "`tool_use` ids were found without `tool_result` blocks immediately after"
	}
	if role == "assistant" {
		c.open = map[string]bool{}
	}
	for _, b := range blocks {
		switch b.Type {
		case "":
			return "type: Field required"
		case "text":
			if b.Text == "" {
				return "text content blocks must be non-empty"
			}
		case "thinking":
			if b.Signature == "" {
				return "thinking.signature: Field required"
			}
		case "tool_use":
			if len(b.Input) == 0 || b.Input[0] != '{' {
				return "tool_use.input: Input should be a valid dictionary"
			}
			if c.calls[b.ID] {
				return "`tool_use` ids must be unique"
			}
			c.calls[b.ID], c.open[b.ID] = true, true
		case "image":
			c.images = append(c.images, b)
		case "tool_result":
			if !c.open[b.ToolUseID] {
				return "unexpected `tool_use_id` found in `tool_result` blocks: " + b.ToolUseID
			}
			delete(c.open, b.ToolUseID)
			var inner []strictBlock
			if json.Unmarshal(b.Content, &inner) == nil {
				if why := c.message("", inner); why != "" {
					return "tool_result." + why
				}
			}
		}
	}
	return ""
}

func (c *strictCheck) imageProblem() string {
	limit := 8000
	if len(c.images) > 20 {
		limit = 2000
	}
	for _, b := range c.images {
		if len(b.Source.Data) > 5<<20 {
			return "image exceeds 5 MB maximum"
		}
		data, err := base64.StdEncoding.DecodeString(b.Source.Data)
		if err != nil {
			return "image: invalid base64 data"
		}
		size, kind, err := image.DecodeConfig(bytes.NewReader(data))
		switch {
		case err != nil:
			return "Could not process image"
		case "image/"+kind != b.Source.Media:
			return fmt.Sprintf("Image does not match the provided media type %s", b.Source.Media)
		case max(size.Width, size.Height) > limit:
			return fmt.Sprintf("At least one of the image dimensions exceed max allowed size: %d pixels", limit)
		}
	}
	return ""
}

func responsesProblem(body json.RawMessage) string {
	var wire struct {
		Input []wireItem `json:"input"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return ""
	}
	calls, results := map[string]bool{}, map[string]bool{}
	for _, item := range wire.Input {
		switch item.Type {
		case "function_call", "custom_tool_call", "local_shell_call":
			calls[item.CallID] = true
		case "function_call_output", "custom_tool_call_output":
			if !calls[item.CallID] {
				return "No tool call found for function call output with call_id " + item.CallID
			}
			results[item.CallID] = true
		}
	}
	for id := range calls {
		if !results[id] {
			return "No tool output found for function call " + id
		}
	}
	return ""
}
