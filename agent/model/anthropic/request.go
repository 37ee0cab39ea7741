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
	case m.thinks && m.budget > 0:
		p.Thinking = anthropic.ThinkingConfigParamOfEnabled(int64(m.budget))
		p.MaxTokens += int64(m.budget)
	case m.thinks:
		p.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{}
	}
	if r.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: toolOf(t)})
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	if n := len(p.Messages); n > 0 {
		blocks := p.Messages[n-1].Content
		if mark := blocks[len(blocks)-1].GetCacheControl(); mark != nil {
			*mark = anthropic.NewCacheControlEphemeralParam()
		}
	}
	return p
}

func toolOf(t agent.ToolSpec) *anthropic.ToolParam {
	tool := &anthropic.ToolParam{Name: t.Name}
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
		b.OfToolUse = &anthropic.ToolUseBlockParam{ID: idOf(p.Call.ID), Name: p.Call.Name, Input: inputOf(p.Call.Args)}
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

// inputOf is a call's arguments, an object whatever they were.
func inputOf(args json.RawMessage) json.RawMessage {
	if json.Valid(args) && strings.HasPrefix(strings.TrimSpace(string(args)), "{") {
		return args
	}
	return json.RawMessage("{}")
}

// idOf is a call's id in the letters that the API allows: other models made up others.
func idOf(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
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
