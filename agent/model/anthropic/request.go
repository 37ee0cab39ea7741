package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/dalsegno/segno/agent"
)

// params is the request as the API wants it, with or without what was thought.
func (m *model) params(r agent.Request, thoughts bool) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: m.name, MaxTokens: int64(m.maxTokens), Messages: m.conversation(r.Messages, thoughts)}
	if r.MaxTokens > 0 {
		p.MaxTokens = int64(r.MaxTokens)
	}
	switch {
	case m.thinks && m.budget == 0:
		p.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{}
	case m.thinks && m.mayThink(r.Messages, thoughts):
		p.Thinking = anthropic.ThinkingConfigParamOfEnabled(int64(m.budget))
		p.MaxTokens += int64(m.budget)
	}
	if r.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	tools := r.Tools
	if len(tools) == 0 {
		tools = called(r.Messages)
	}
	for _, t := range tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: toolOf(t)})
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
		if r.NoCalls || len(r.Tools) == 0 {
			none := anthropic.NewToolChoiceNoneParam()
			p.ToolChoice.OfNone = &none
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
func markEnds(messages []anthropic.MessageParam) {
	mark := func(blocks []anthropic.ContentBlockParamUnion) {
		if c := blocks[len(blocks)-1].GetCacheControl(); c != nil {
			*c = anthropic.NewCacheControlEphemeralParam()
		}
	}
	last := len(messages) - 1
	for i := last; i >= 0; i-- {
		if i == last {
			mark(messages[i].Content)
		} else if messages[i].Role == anthropic.MessageParamRoleUser {
			mark(messages[i].Content)
			return
		}
	}
}

func toolOf(t agent.ToolSpec) *anthropic.ToolParam {
	tool := &anthropic.ToolParam{Name: nameOf(t.Name)}
	if t.Description != "" {
		tool.Description = anthropic.String(t.Description)
	}
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	tool.InputSchema = param.Override[anthropic.ToolInputSchemaParam](schema)
	return tool
}

// conversation is the messages as the API wants them: user and assistant in turn,
// none of them empty.
func (m *model) conversation(messages []agent.Message, thoughts bool) (all []anthropic.MessageParam) {
	for i := range messages {
		role := anthropic.MessageParamRoleUser
		if messages[i].Role == agent.Assistant {
			role = anthropic.MessageParamRoleAssistant
		}
		var blocks []anthropic.ContentBlockParamUnion
		for _, p := range messages[i].Parts {
			if p.Thinking != nil && (!thoughts || messages[i].Model != m.Name()) {
				continue // no other model can read it
			}
			blocks = append(blocks, blocksOf(p)...)
		}
		if len(blocks) == 0 {
			continue
		}
		if n := len(all); n > 0 && all[n-1].Role == role {
			all[n-1].Content = append(all[n-1].Content, blocks...)
			continue
		}
		all = append(all, anthropic.MessageParam{Role: role, Content: blocks})
	}
	return all
}

// blocksOf is a part as the API wants it: one block, or none where it would have
// nothing to say, which the API refuses.
func blocksOf(p agent.Part) []anthropic.ContentBlockParamUnion {
	var b anthropic.ContentBlockParamUnion
	switch {
	case p.Call != nil:
		b.OfToolUse = &anthropic.ToolUseBlockParam{ID: idOf(p.Call.ID), Name: nameOf(p.Call.Name), Input: inputOf(p.Call.Args)}
	case p.Result != nil:
		b.OfToolResult = resultOf(p.Result)
	case p.Thinking != nil:
		if len(p.Thinking.Data) == 0 {
			return nil // unsigned: the API would refuse it
		}
		b = param.Override[anthropic.ContentBlockParamUnion](p.Thinking.Data)
	default:
		b.OfText, b.OfImage, b.OfDocument = contentOf(p)
		if b.OfText == nil && b.OfImage == nil && b.OfDocument == nil {
			return nil
		}
	}
	return []anthropic.ContentBlockParamUnion{b}
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

func resultOf(res *agent.Result) *anthropic.ToolResultBlockParam {
	b := &anthropic.ToolResultBlockParam{ToolUseID: idOf(res.Call)}
	for _, p := range slices.Concat([]agent.Part{{Text: res.Text}}, res.Parts) {
		var c anthropic.ToolResultBlockParamContentUnion
		c.OfText, c.OfImage, c.OfDocument = contentOf(p)
		if c.OfText != nil || c.OfImage != nil || c.OfDocument != nil {
			b.Content = append(b.Content, c)
		}
	}
	if res.Error {
		b.IsError = anthropic.Bool(true)
		if len(b.Content) == 0 { // the API wants an error to say something
			b.Content = []anthropic.ToolResultBlockParamContentUnion{{OfText: &anthropic.TextBlockParam{Text: "error"}}}
		}
	}
	return b
}

// contentOf is a text, an image or a file. At most one of the three is set. What the
// API cannot take is told in words.
func contentOf(p agent.Part) (*anthropic.TextBlockParam, *anthropic.ImageBlockParam, *anthropic.DocumentBlockParam) {
	words := func(text string) *anthropic.TextBlockParam { return &anthropic.TextBlockParam{Text: text} }
	switch {
	case p.Image != nil:
		if image := imageOf(p.Image); image != nil {
			return nil, image, nil
		}
		return words(described("image", p.Image)), nil, nil
	case p.File != nil:
		if doc := documentOf(p.File); doc != nil {
			return nil, nil, doc
		}
		return words(described("file", p.File)), nil, nil
	case strings.TrimSpace(p.Text) != "":
		return words(p.Text), nil, nil
	}
	return nil, nil, nil
}

var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

func imageOf(b *agent.Blob) *anthropic.ImageBlockParam {
	image := &anthropic.ImageBlockParam{}
	switch {
	case len(b.Data) > 0 && slices.Contains(imageTypes, b.Type):
		image.Source.OfBase64 = &anthropic.Base64ImageSourceParam{
			Data: base64.StdEncoding.EncodeToString(b.Data), MediaType: anthropic.Base64ImageSourceMediaType(b.Type)}
	case len(b.Data) == 0 && b.URL != "":
		image.Source.OfURL = &anthropic.URLImageSourceParam{URL: b.URL}
	default:
		return nil
	}
	return image
}

func documentOf(b *agent.Blob) *anthropic.DocumentBlockParam {
	doc := &anthropic.DocumentBlockParam{}
	switch pdf := b.Type == "application/pdf"; {
	case pdf && len(b.Data) > 0:
		doc.Source.OfBase64 = &anthropic.Base64PDFSourceParam{Data: base64.StdEncoding.EncodeToString(b.Data)}
	case pdf && b.URL != "":
		doc.Source.OfURL = &anthropic.URLPDFSourceParam{URL: b.URL}
	case !pdf && len(b.Data) > 0 && utf8.Valid(b.Data):
		doc.Source.OfText = &anthropic.PlainTextSourceParam{Data: string(b.Data)}
	default:
		return nil
	}
	if b.Name != "" {
		doc.Title = anthropic.String(b.Name)
	}
	return doc
}

// described stands for something that cannot be shown.
func described(what string, b *agent.Blob) string {
	about := slices.DeleteFunc([]string{b.Name, b.Type, b.URL}, func(s string) bool { return s == "" })
	if len(b.Data) > 0 {
		about = append(about, fmt.Sprintf("%d bytes", len(b.Data)))
	}
	return fmt.Sprintf("[%s that cannot be shown: %s]", what, strings.Join(about, ", "))
}
