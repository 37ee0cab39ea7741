package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/endpoint"
)

// cacheKey brings a thread's requests to where its cache is, and does not say what the
// thread is called.
func cacheKey(thread string) string {
	sum := sha256.Sum256([]byte(thread))
	return hex.EncodeToString(sum[:16])
}

func toolOf(t agent.ToolSpec) tool {
	return tool{Type: "function", Function: function{nameOf(t.Name), t.Description, t.Schema}}
}

// talk is a conversation in the making. What a user says, and what tools showed,
// waits until it can be said: results come right after their calls, and many chat
// templates want no two user's messages in a row.
type talk struct {
	all     []message
	waiting []part
}

// conversation is the messages as the API wants them.
func (m *model) conversation(r agent.Request) []message {
	var t talk
	if r.System != "" {
		t.all = append(t.all, message{Role: "system", Content: r.System})
	}
	turn := -1 // where the turn began
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

func (t *talk) flush() {
	if len(t.waiting) == 0 {
		return
	}
	said := message{Role: "user"}
	texts := make([]string, 0, len(t.waiting))
	for _, p := range t.waiting {
		texts = append(texts, p.Text)
	}
	said.Content = strings.Join(texts, "\n")
	if slices.ContainsFunc(t.waiting, func(p part) bool { return p.Type != "text" }) {
		said.Content = t.waiting
	}
	t.all = append(t.all, said)
	t.waiting = nil
}

// user adds what people say, and the results of calls.
func (t *talk) user(msg *agent.Message) {
	for _, p := range msg.Parts {
		if p.Result == nil {
			t.waiting = append(t.waiting, partsOf(p)...)
			continue
		}
		text := p.Result.Text
		if p.Result.Error && !strings.HasPrefix(strings.ToLower(text), "error") {
			text = strings.TrimSuffix("error: "+text, ": ")
		}
		if text == "" {
			text = "(no output)"
		}
		t.all = append(t.all, message{Role: "tool", ToolCallID: idOf(p.Result.Call), Content: text})
		var shown []part
		for _, in := range p.Result.Parts {
			shown = append(shown, partsOf(in)...)
		}
		if len(shown) > 0 { // a tool's message holds text only
			t.waiting = append(t.waiting, words("From "+p.Result.Name+":"))
			t.waiting = append(t.waiting, shown...)
		}
	}
}

// assistant adds what the model said, and what it thought if it wants to know.
func (t *talk) assistant(msg *agent.Message, ownThoughts bool) {
	said := message{Role: "assistant"}
	if text := msg.Text(); text != "" {
		said.Content = text
	}
	for _, c := range msg.Calls() {
		call := toolCall{ID: idOf(c.ID), Type: "function"}
		call.Function.Name, call.Function.Arguments = nameOf(c.Name), argumentsOf(c.Args)
		said.ToolCalls = append(said.ToolCalls, call)
	}
	if said.Content == nil && len(said.ToolCalls) == 0 {
		return // what was asked before and after it is one question
	}
	t.flush()
	if ownThoughts {
		said.thoughts = thoughtsOf(msg)
	}
	t.all = append(t.all, said)
}

// argumentsOf is a call's arguments as JSON of an object, whatever they were. Servers
// that fill in a chat template refuse each request that has others, even in a call of
// long ago. The model is shown what it wrote.
func argumentsOf(args json.RawMessage) string {
	text := strings.TrimSpace(string(args))
	switch {
	case text == "" || text == "null":
		return "{}"
	case strings.HasPrefix(text, "{") && json.Valid(args):
		return text
	}
	_ = json.Unmarshal(args, &text) // what was no JSON is kept as a string
	return `{"invalid_json":` + quoted(text) + `}`
}

// quoted is a text as a JSON string, readable by a model too.
func quoted(text string) string {
	data, _ := endpoint.JSON(text) // a string always encodes
	return string(data)
}

// thoughtsOf are a message's thoughts, by the name that the server gave them.
func thoughtsOf(msg *agent.Message) (all thoughts) {
	for _, p := range msg.Parts {
		var t thoughts
		if p.Thinking == nil || json.Unmarshal(p.Thinking.Data, &t) != nil {
			continue
		}
		all.Reasoning += t.Reasoning
		all.ReasoningContent += t.ReasoningContent
	}
	return all
}

func words(text string) part { return part{Type: "text", Text: text} }

// partsOf is a part of what a user says: one, or none if it says nothing. What the API
// cannot take is told in words.
func partsOf(p agent.Part) []part {
	switch {
	case p.Image != nil:
		address := p.Image.URL
		if len(p.Image.Data) > 0 {
			address = dataURL(p.Image)
		}
		if address == "" {
			return []part{words(described("image", p.Image))}
		}
		return []part{{Type: "image_url", ImageURL: &imageURL{address}}}
	case p.File != nil:
		return []part{fileOf(p.File)}
	case strings.TrimSpace(p.Text) != "":
		return []part{words(p.Text)}
	}
	return nil
}

func fileOf(b *agent.Blob) part {
	switch {
	case len(b.Data) > 0 && b.Type == "application/pdf":
		return part{Type: "file", File: &file{Name: cmp.Or(b.Name, "file.pdf"), Data: dataURL(b)}}
	case len(b.Data) > 0 && utf8.Valid(b.Data):
		return words(strings.TrimSpace("File "+b.Name) + ":\n" + string(b.Data))
	}
	return words(described("file", b))
}

func dataURL(b *agent.Blob) string {
	return "data:" + b.Type + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
}

// described stands for something that cannot be shown.
func described(what string, b *agent.Blob) string {
	about := slices.DeleteFunc([]string{b.Name, b.Type, b.URL}, func(s string) bool { return s == "" })
	if len(b.Data) > 0 {
		about = append(about, fmt.Sprintf("%d bytes", len(b.Data)))
	}
	return fmt.Sprintf("[%s that cannot be shown: %s]", what, strings.Join(about, ", "))
}
