package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno/agent"
)

// params is the request as the API wants it, with or without what was thought.
func (m *model) params(r agent.Request, thoughts bool) *request {
	p := &request{Model: m.name, MaxTokens: m.maxTokens, Messages: m.conversation(r.Messages, thoughts), Stream: true}
	if r.MaxTokens > 0 {
		p.MaxTokens = r.MaxTokens
	}
	switch {
	case m.thinks && m.budget == 0:
		p.Thinking = &thinking{Type: "adaptive"}
	case m.thinks && m.mayThink(r.Messages, thoughts):
		p.Thinking = &thinking{Type: "enabled", Budget: m.budget}
		p.MaxTokens += m.budget
	}
	if r.System != "" {
		p.System = []*block{{Type: "text", Text: r.System, Cache: ephemeral()}}
	}
	tools := r.Tools
	if len(tools) == 0 {
		tools = called(r.Messages)
	}
	for _, t := range tools {
		p.Tools = append(p.Tools, toolOf(t))
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].Cache = ephemeral()
		if r.NoCalls || len(r.Tools) == 0 {
			p.ToolChoice = &kind{"none"}
		}
	}
	markEnds(p.Messages)
	return p
}

// called are the tools that a conversation has calls of. The API refuses a
// conversation with calls if no tools are named.
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

// mayThink reports whether thinking in a budget may be asked for. In the midst of a
// turn the API refuses it unless the turn began with a thought, which another model's
// did not, and no turn does if thoughts are left out.
func (m *model) mayThink(messages []agent.Message, thoughts bool) bool {
	end := len(messages) // of what the model has said
	for end > 0 && messages[end-1].Role != agent.Assistant {
		end--
	}
	if !slices.ContainsFunc(messages[end:], hasResult) {
		return true
	}
	begun, own := false, false // the turn, with a thought of its own
	for _, msg := range messages[:end] {
		switch {
		case msg.Role == agent.User:
			begun = false
		case msg.Role == agent.Assistant && !begun && len(msg.Parts) > 0:
			first := msg.Parts[0].Thinking
			begun, own = true, msg.Model == m.Name() && first != nil && len(first.Data) > 0
		}
	}
	return thoughts && own
}

func hasResult(m agent.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p agent.Part) bool { return p.Result != nil })
}

// markEnds marks the end of the conversation for the cache, and where it ended at the
// step before: the API looks for what it has some 20 blocks back from a mark, and one
// step may have more calls and results than that.
func markEnds(messages []message) {
	mark := func(blocks []any) {
		if b, ok := blocks[len(blocks)-1].(*block); ok {
			b.Cache = ephemeral()
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

func toolOf(t agent.ToolSpec) *tool {
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	return &tool{Name: nameOf(t.Name), Description: t.Description, InputSchema: schema}
}

// conversation is the messages as the API wants them: user and assistant in turn,
// none of them empty.
func (m *model) conversation(messages []agent.Message, thoughts bool) (all []message) {
	for i := range messages {
		role := userRole
		if messages[i].Role == agent.Assistant {
			role = assistantRole
		}
		var blocks []any
		for _, p := range messages[i].Parts {
			if p.Thinking != nil && (!thoughts || messages[i].Model != m.Name()) {
				continue // no other model can read it
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

// blockOf is a part as the API wants it, a *block or JSON that goes back as it came. It is
// nil where it would have nothing to say, which the API refuses.
func blockOf(p agent.Part) any {
	switch {
	case p.Call != nil:
		return &block{Type: "tool_use", ID: idOf(p.Call.ID), Name: nameOf(p.Call.Name), Input: inputOf(p.Call.Args)}
	case p.Result != nil:
		return resultOf(p.Result)
	case p.Thinking != nil && len(p.Thinking.Data) == 0:
		return nil // unsigned: the API would refuse it
	case p.Thinking != nil:
		return p.Thinking.Data
	}
	if b := contentOf(p); b != nil {
		return b
	}
	return nil
}

// inputOf is a call's arguments, an object whatever they were. The model is shown what
// it wrote.
func inputOf(args json.RawMessage) json.RawMessage {
	text := strings.TrimSpace(string(args))
	switch {
	case text == "" || text == "null":
		return json.RawMessage("{}")
	case strings.HasPrefix(text, "{") && json.Valid(args):
		return args
	}
	_ = json.Unmarshal(args, &text) // what was no JSON is kept as a string
	object, err := json.Marshal(map[string]string{"invalid_json": text})
	if err != nil {
		return json.RawMessage("{}")
	}
	return object
}

func resultOf(res *agent.Result) *block {
	b := &block{Type: "tool_result", ToolUseID: idOf(res.Call), IsError: res.Error}
	for _, p := range slices.Concat([]agent.Part{{Text: res.Text}}, res.Parts) {
		if c := contentOf(p); c != nil {
			b.Content = append(b.Content, c)
		}
	}
	if res.Error && len(b.Content) == 0 { // the API wants an error to say something
		b.Content = []*block{words("error")}
	}
	return b
}

func words(text string) *block { return &block{Type: "text", Text: text} }

// contentOf is a text, an image or a file, nil if it says nothing. What the API cannot
// take is described in words.
func contentOf(p agent.Part) *block {
	switch {
	case p.Image != nil:
		return cmp.Or(imageOf(p.Image), words(described("image", p.Image)))
	case p.File != nil:
		return cmp.Or(documentOf(p.File), words(described("file", p.File)))
	case strings.TrimSpace(p.Text) != "":
		return words(p.Text)
	}
	return nil
}

var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

func imageOf(b *agent.Blob) *block {
	switch {
	case len(b.Data) > 0 && slices.Contains(imageTypes, b.Type):
		return &block{Type: "image", Source: inBase64(b)}
	case len(b.Data) == 0 && b.URL != "":
		return &block{Type: "image", Source: &source{Type: "url", URL: b.URL}}
	}
	return nil
}

func documentOf(b *agent.Blob) *block {
	doc := &block{Type: "document", Title: b.Name}
	switch pdf := b.Type == "application/pdf"; {
	case pdf && len(b.Data) > 0:
		doc.Source = inBase64(b)
	case pdf && b.URL != "":
		doc.Source = &source{Type: "url", URL: b.URL}
	case !pdf && len(b.Data) > 0 && utf8.Valid(b.Data):
		doc.Source = &source{Type: "text", MediaType: "text/plain", Data: string(b.Data)}
	default:
		return nil
	}
	return doc
}

func inBase64(b *agent.Blob) *source {
	return &source{Type: "base64", MediaType: b.Type, Data: base64.StdEncoding.EncodeToString(b.Data)}
}

// described stands for something that cannot be shown.
func described(what string, b *agent.Blob) string {
	about := slices.DeleteFunc([]string{b.Name, b.Type, b.URL}, func(s string) bool { return s == "" })
	if len(b.Data) > 0 {
		about = append(about, fmt.Sprintf("%d bytes", len(b.Data)))
	}
	return fmt.Sprintf("[%s that cannot be shown: %s]", what, strings.Join(about, ", "))
}
