package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/internal/endpoint"
)

// request returns the request as the API expects it.
func (m *model) request(r agent.Request) *request {
	p := &request{Model: m.name, Messages: m.conversation(r), ReasoningEffort: m.effort, Stream: true}
	p.StreamOptions.IncludeUsage = true
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, tool{Type: "function", Function: function{endpoint.ToolName(t.Name), t.Description, t.Schema}})
	}
	if r.NoCalls && len(p.Tools) > 0 { // the API refuses a choice in a request without tools
		p.ToolChoice = "none"
	}
	limit := cmp.Or(r.MaxTokens, m.maxTokens)
	if m.server.Own {
		p.MaxCompletion = limit // OpenAI's newer models refuse max_tokens
	} else {
		p.MaxTokens = limit // every server knows it
	}
	if m.server.Own && r.Thread != "" {
		// The key routes the requests of a thread to its cache, without sending the thread's name.
		sum := sha256.Sum256([]byte(r.Thread))
		p.PromptCacheKey = hex.EncodeToString(sum[:16])
	}
	return p
}

// callID returns a call's id in a form that the API accepts. Other servers make longer ids.
func callID(id string) string { return endpoint.Shorten(id, 40) }

// conversation collects messages. User content, and images that tools returned, wait in
// pending until the results of all calls are added: results must follow their calls, and many
// chat templates reject two user messages in a row.
type conversation struct {
	all     []message
	pending []part
}

// conversation returns the messages as the API expects them.
func (m *model) conversation(r agent.Request) []message {
	var t conversation
	if r.System != "" {
		t.all = append(t.all, message{Role: "system", Content: r.System})
	}
	turn := -1 // index of the message that began the turn
	for i := range r.Messages {
		if r.Messages[i].Role == agent.User {
			turn = i
		}
	}
	for i := range r.Messages {
		switch msg := &r.Messages[i]; msg.Role {
		case agent.Assistant:
			t.assistant(msg, i > turn && msg.Model == m.Name())
		default:
			t.user(msg)
		}
	}
	t.flush()
	return t.all
}

func (t *conversation) flush() {
	if len(t.pending) == 0 {
		return
	}
	said := message{Role: "user"}
	texts := make([]string, 0, len(t.pending))
	for _, p := range t.pending {
		texts = append(texts, p.Text)
	}
	said.Content = strings.Join(texts, "\n")
	if slices.ContainsFunc(t.pending, func(p part) bool { return p.Type != "text" }) {
		said.Content = t.pending
	}
	t.all = append(t.all, said)
	t.pending = nil
}

// user adds user content and the results of calls.
func (t *conversation) user(msg *agent.Message) {
	for _, p := range msg.Parts {
		if p.Result == nil {
			t.pending = append(t.pending, partsOf(p)...)
			continue
		}
		text := p.Result.Text
		if p.Result.Error && !strings.HasPrefix(strings.ToLower(text), "error") {
			text = strings.TrimSuffix("error: "+text, ": ")
		}
		if text == "" {
			text = "(no output)"
		}
		t.all = append(t.all, message{Role: "tool", ToolCallID: callID(p.Result.Call), Content: text})
		var shown []part
		for _, in := range p.Result.Parts {
			shown = append(shown, partsOf(in)...)
		}
		if len(shown) > 0 { // a tool's message contains text only
			t.pending = append(t.pending, textPart("From "+p.Result.Name+":"))
			t.pending = append(t.pending, shown...)
		}
	}
}

// assistant adds a message of the model. It adds the thinking if withThinking is set.
func (t *conversation) assistant(msg *agent.Message, withThinking bool) {
	said := message{Role: "assistant"}
	if text := msg.Text(); text != "" {
		said.Content = text
	}
	for _, c := range msg.Calls() {
		call := toolCall{ID: callID(c.ID), Type: "function"}
		call.Function.Name, call.Function.Arguments = endpoint.ToolName(c.Name), string(endpoint.Arguments(c.Args))
		said.ToolCalls = append(said.ToolCalls, call)
	}
	if said.Content == nil && len(said.ToolCalls) == 0 {
		return // the user messages before and after it become one
	}
	t.flush()
	if withThinking {
		said.thinking = thinkingOf(msg)
	}
	t.all = append(t.all, said)
}

// thinkingOf returns a message's thinking, in the fields that the server used.
func thinkingOf(msg *agent.Message) (all thinking) {
	for _, p := range msg.Parts {
		var t thinking
		if p.Thinking == nil || json.Unmarshal(p.Thinking.Data, &t) != nil {
			continue
		}
		all.Reasoning += t.Reasoning
		all.ReasoningContent += t.ReasoningContent
	}
	return all
}

func textPart(text string) part { return part{Type: "text", Text: text} }

// partsOf returns user content as the API expects it, nothing for an empty text. A text
// describes content that the API does not accept.
func partsOf(p agent.Part) []part {
	switch {
	case p.Image != nil:
		address := p.Image.URL
		if len(p.Image.Data) > 0 {
			address = dataURL(p.Image)
		}
		if address == "" {
			return []part{textPart(endpoint.Describe("image", p.Image))}
		}
		return []part{{Type: "image_url", ImageURL: &imageURL{address}}}
	case p.File != nil:
		return []part{fileOf(p.File)}
	case strings.TrimSpace(p.Text) != "":
		return []part{textPart(p.Text)}
	}
	return nil
}

func fileOf(b *agent.Blob) part {
	switch {
	case len(b.Data) > 0 && b.Type == "application/pdf":
		return part{Type: "file", File: &file{Name: cmp.Or(b.Name, "file.pdf"), Data: dataURL(b)}}
	case len(b.Data) > 0 && utf8.Valid(b.Data):
		return textPart(strings.TrimSpace("File "+b.Name) + ":\n" + string(b.Data))
	}
	return textPart(endpoint.Describe("file", b))
}

func dataURL(b *agent.Blob) string {
	return "data:" + b.Type + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
}
