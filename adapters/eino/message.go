package segnoeino

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// FromMessage returns a message of Eino in the form that segno records.
func FromMessage(m *schema.Message) agent.Message {
	out := agent.Message{Role: agent.Role(m.Role), Time: time.Now()}
	if m.Role == schema.System {
		out.Role = agent.User // segno has no third author; the text is not lost
	}
	if m.Role == schema.Tool {
		out.Role = agent.ToolRole
		out.Parts = []agent.Part{{Result: &agent.Result{Call: m.ToolCallID, Name: m.ToolName, Text: contentOf(m)}}}
		return out
	}
	if m.ReasoningContent != "" {
		out.Parts = append(out.Parts, agent.Part{Thinking: &agent.Thinking{Text: m.ReasoningContent}})
	}
	if text := contentOf(m); text != "" {
		out.Parts = append(out.Parts, agent.Part{Text: text})
	}
	for _, p := range m.UserInputMultiContent {
		if p.Image != nil {
			out.Parts = append(out.Parts, agent.Part{Image: blobOf(p.Image.MessagePartCommon)})
		}
		if p.File != nil {
			out.Parts = append(out.Parts, agent.Part{File: blobOf(p.File.MessagePartCommon)})
		}
	}
	for _, c := range m.ToolCalls {
		out.Parts = append(out.Parts, agent.Part{Call: &agent.Call{ID: c.ID, Name: c.Function.Name, Args: argsOf(c.Function.Arguments)}})
	}
	return out
}

// ToMessages returns a message of segno as messages of Eino: one for each result of a tool, and one
// for everything else.
func ToMessages(m agent.Message) (all []*schema.Message) {
	out := &schema.Message{Role: schema.RoleType(m.Role), Content: m.Text()}
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			all = append(all, schema.ToolMessage(p.Result.Text, p.Result.Call, schema.WithToolName(p.Result.Name)))
		case p.Thinking != nil:
			out.ReasoningContent += p.Thinking.Text
		case p.Call != nil:
			out.ToolCalls = append(out.ToolCalls, schema.ToolCall{ID: p.Call.ID, Type: "function", Function: schema.FunctionCall{Name: p.Call.Name, Arguments: string(p.Call.Args)}})
		}
	}
	if m.Role != agent.ToolRole {
		all = append(all, out)
	}
	return all
}

// contentOf returns the text of a message, which may be in parts.
func contentOf(m *schema.Message) string {
	all := []string{}
	if m.Content != "" {
		all = append(all, m.Content)
	}
	for _, p := range m.UserInputMultiContent {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	for _, p := range m.AssistantGenMultiContent {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

func blobOf(p schema.MessagePartCommon) *agent.Blob {
	b := &agent.Blob{Type: p.MIMEType}
	if p.URL != nil {
		b.URL = *p.URL
	}
	if p.Base64Data != nil {
		_ = json.Unmarshal(asJSON(*p.Base64Data), &b.Data) // base64 that a model wrote may be malformed
	}
	return b
}

// argsOf returns the arguments of a call as JSON. A model may write anything.
func argsOf(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return asJSON(text)
}

// inputMessages returns the input of a run as messages.
func inputMessages(in any) []agent.Message {
	var all []agent.Message
	switch in := in.(type) {
	case *schema.Message:
		all = append(all, FromMessage(in))
	case []*schema.Message:
		for _, m := range in {
			all = append(all, FromMessage(m))
		}
	default:
		if text := textOf(in); text != "" {
			all = append(all, agent.Text(text))
		}
	}
	return all
}

// textOf returns the text of an input or an output for a reader.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case *schema.Message:
		if v == nil {
			return ""
		}
		return contentOf(v)
	case []*schema.Message:
		if len(v) == 0 {
			return ""
		}
		return textOf(v[len(v)-1])
	case fmt.Stringer:
		return v.String()
	}
	return string(asJSON(v))
}

// resultText returns the output of a node as the text of a result.
func resultText(output any) string {
	if out, ok := output.(*tool.CallbackOutput); ok {
		return out.Response
	}
	return textOf(output)
}

// questionOf returns the text of the question that a node asks.
func questionOf(info any) string {
	if info == nil {
		return "continue?"
	}
	return textOf(info)
}

// concat joins the parts of a streamed output. Parts of unknown types become a list.
func concat(chunks []any) (any, error) {
	var messages []*schema.Message
	var text strings.Builder
	for _, c := range chunks {
		switch c := c.(type) {
		case *schema.Message:
			messages = append(messages, c)
		case *model.CallbackOutput:
			messages = append(messages, c.Message)
		case string:
			text.WriteString(c)
		case *tool.CallbackOutput:
			text.WriteString(c.Response)
		}
	}
	switch {
	case len(chunks) > 0 && len(messages) == len(chunks):
		return schema.ConcatMessages(messages)
	case text.Len() > 0:
		return text.String(), nil
	case len(chunks) == 1:
		return chunks[0], nil
	}
	return chunks, nil
}

// usageOf returns the cost of a model call, as a Go agent records it.
func usageOf(u *model.TokenUsage) agent.Usage {
	return agent.Usage{Input: u.PromptTokens, Output: u.CompletionTokens}
}

func messageEntry(m agent.Message) segno.Entry {
	if m.Time.IsZero() {
		m.Time = time.Now()
	}
	return segno.Entry{Kind: segno.EntryMessage, Body: body(m)}
}

// body encodes a record of this package, which always encodes.
func body(v any) json.RawMessage {
	out, err := segno.Encode(v)
	if err != nil {
		panic("segnoeino: internal error: " + err.Error())
	}
	return out
}

// asJSON returns any value as JSON for a reader. A value that has no JSON becomes the name of its type.
func asJSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok && json.Valid(raw) {
		return raw
	}
	out, err := segno.Encode(v)
	if err != nil {
		return body(fmt.Sprintf("a value of type %T", v))
	}
	return out
}
