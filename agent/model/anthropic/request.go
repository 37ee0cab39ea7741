package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/internal/endpoint"
)

// request returns the request as the API expects it, with or without thinking.
func (m *model) request(r agent.Request, thinks bool) *request {
	p := &request{Model: m.name, MaxTokens: cmp.Or(r.MaxTokens, m.MaxTokens), Messages: m.conversation(r.Messages, thinks), Stream: true}
	switch budget := m.ThinkingBudget; {
	case m.Thinking && budget == 0:
		p.Thinking = &thinking{Type: "adaptive"}
	case budget > 0 && m.mayThink(r.Messages, thinks):
		p.Thinking = &thinking{Type: "enabled", Budget: budget}
		p.MaxTokens += budget
	}
	if r.System != "" {
		p.System = []*block{{Type: "text", Text: r.System, Cache: m.cacheMark()}}
	}
	tools := r.Tools
	if len(tools) == 0 {
		tools = called(r.Messages)
	}
	for _, t := range tools {
		p.Tools = append(p.Tools, toolOf(t))
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].Cache = m.cacheMark()
		if r.NoCalls || len(r.Tools) == 0 {
			p.ToolChoice = &kind{"none"}
		}
	}
	m.markEnds(p.Messages)
	return p
}

// called returns the tools that a conversation calls. The API refuses a conversation
// with calls in a request without tools.
func called(messages []agent.Message) (tools []agent.ToolSpec) {
	seen := map[string]bool{}
	for i := range messages {
		for _, c := range messages[i].Calls() {
			if !seen[c.Name] {
				seen[c.Name] = true
				tools = append(tools, agent.ToolSpec{Name: c.Name})
			}
		}
	}
	return tools
}

// mayThink reports whether a request may enable thinking with a budget. During a turn the API
// refuses it unless the turn began with this model's thinking.
func (m *model) mayThink(messages []agent.Message, thinks bool) bool {
	end := len(messages) // of the model's last message
	for end > 0 && messages[end-1].Role != agent.Assistant {
		end--
	}
	if !slices.ContainsFunc(messages[end:], hasResult) {
		return true
	}
	begun, own := false, false // the turn began; it began with this model's thinking
	for _, msg := range messages[:end] {
		switch {
		case msg.Role == agent.User:
			begun = false
		case msg.Role == agent.Assistant && !begun && len(msg.Parts) > 0:
			first := msg.Parts[0].Thinking
			begun, own = true, msg.Model == m.Name() && first != nil && len(first.Data) > 0
		}
	}
	return thinks && own
}

func hasResult(m agent.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p agent.Part) bool { return p.Result != nil })
}

// markEnds marks the present end of the conversation for the cache, and its end at the step
// before. The API searches its cache about 20 blocks back from a mark, and one step may have more
// calls and results than that.
func (m *model) markEnds(messages []message) {
	mark := func(blocks []any) {
		if b, ok := blocks[len(blocks)-1].(*block); ok {
			b.Cache = m.cacheMark()
		}
	}
	last := len(messages) - 1
	for i := last; i >= 0; i-- {
		if i == last {
			mark(messages[i].Content)
		} else if messages[i].Role == userRole {
			mark(messages[i].Content)
			return
		}
	}
}

// cacheMark returns a mark with the lifetime of the options.
func (m *model) cacheMark() *cacheMark {
	mark := &cacheMark{Type: "ephemeral"}
	if m.CacheLifetime > 5*time.Minute {
		mark.TTL = "1h"
	}
	return mark
}

func toolOf(t agent.ToolSpec) *tool {
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	return &tool{Name: endpoint.ToolName(t.Name), Description: t.Description, InputSchema: schema}
}

// conversation returns the messages as the API expects them: user and assistant alternate,
// and no message is empty.
func (m *model) conversation(messages []agent.Message, thinks bool) (all []message) {
	for i := range messages {
		role := userRole
		if messages[i].Role == agent.Assistant {
			role = assistantRole
		}
		var blocks []any
		for _, p := range messages[i].Parts {
			if p.Thinking != nil && (!thinks || messages[i].Model != m.Name()) {
				continue // another model cannot read it
			}
			if b := blockOf(p); b != nil {
				blocks = append(blocks, b)
			}
		}
		if len(blocks) == 0 {
			continue
		}
		if n := len(all); n > 0 && all[n-1].Role == role {
			all[n-1].Content = append(all[n-1].Content, blocks...)
			continue
		}
		all = append(all, message{Role: role, Content: blocks})
	}
	return all
}

// blockOf returns a part as the API expects it: a *block, or JSON that the API sent. It
// returns nil for an empty part, which the API would refuse.
func blockOf(p agent.Part) any {
	switch {
	case p.Call != nil:
		return &block{Type: "tool_use", ID: callID(p.Call.ID), Name: endpoint.ToolName(p.Call.Name), Input: endpoint.Arguments(p.Call.Args)}
	case p.Result != nil:
		return resultOf(p.Result)
	case p.Thinking != nil && len(p.Thinking.Data) == 0:
		return nil // unsigned thinking, which the API would refuse
	case p.Thinking != nil:
		return p.Thinking.Data
	}
	if b := contentOf(p); b != nil {
		return b
	}
	return nil
}

func resultOf(res *agent.Result) *block {
	b := &block{Type: "tool_result", ToolUseID: callID(res.Call), IsError: res.Error}
	for _, p := range slices.Concat([]agent.Part{{Text: res.Text}}, res.Parts) {
		if c := contentOf(p); c != nil {
			b.Content = append(b.Content, c)
		}
	}
	if res.Error && len(b.Content) == 0 { // the API refuses an empty error
		b.Content = []*block{textBlock("error")}
	}
	return b
}

// callID returns a call's id in a form that the API accepts. Other models use other forms.
func callID(id string) string { return endpoint.Identifier(id, 64) }

func textBlock(text string) *block { return &block{Type: "text", Text: text} }

// contentOf returns a text, an image or a file, nil for an empty text. A text describes
// content that the API does not accept.
func contentOf(p agent.Part) *block {
	switch {
	case p.Image != nil:
		return cmp.Or(imageOf(p.Image), textBlock(endpoint.Describe("image", p.Image)))
	case p.File != nil:
		return cmp.Or(documentOf(p.File), textBlock(endpoint.Describe("file", p.File)))
	case strings.TrimSpace(p.Text) != "":
		return textBlock(p.Text)
	}
	return nil
}

var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

func imageOf(b *agent.Blob) *block {
	switch {
	case len(b.Data) > 0 && slices.Contains(imageTypes, b.Type):
		return &block{Type: "image", Source: base64Source(b)}
	case len(b.Data) == 0 && b.URL != "":
		return &block{Type: "image", Source: &source{Type: "url", URL: b.URL}}
	}
	return nil
}

func documentOf(b *agent.Blob) *block {
	doc := &block{Type: "document", Title: b.Name}
	switch pdf := b.Type == "application/pdf"; {
	case pdf && len(b.Data) > 0:
		doc.Source = base64Source(b)
	case pdf && b.URL != "":
		doc.Source = &source{Type: "url", URL: b.URL}
	case !pdf && len(b.Data) > 0 && utf8.Valid(b.Data):
		doc.Source = &source{Type: "text", MediaType: "text/plain", Data: string(b.Data)}
	default:
		return nil
	}
	return doc
}

func base64Source(b *agent.Blob) *source {
	return &source{Type: "base64", MediaType: b.Type, Data: base64.StdEncoding.EncodeToString(b.Data)}
}
