package agent

import (
	"encoding/json"
	"strings"
	"time"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // the results of calls
)

// Message is one message of a conversation, in a form that does not depend on the model. The
// log contains it as JSON.
type Message struct {
	ID    string    `json:"id,omitempty"` // the same in every fork
	Role  Role      `json:"role"`
	Parts []Part    `json:"parts"`
	Model string    `json:"model,omitempty"` // the model that wrote an assistant's message
	Time  time.Time `json:"time,omitzero"`
	Stop  Stop      `json:"stop,omitempty"` // length or refusal, if that cut an assistant's message short
}

// Part is a piece of a message: exactly one of its fields is set.
type Part struct {
	Text     string    `json:"text,omitempty"`
	Image    *Blob     `json:"image,omitempty"`
	File     *Blob     `json:"file,omitempty"`
	Thinking *Thinking `json:"thinking,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	Result   *Result   `json:"result,omitempty"`
}

// Blob is an image or a file: its bytes, or their URL.
type Blob struct {
	Type string `json:"type"` // media type: "image/png"
	Name string `json:"name,omitempty"`
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url,omitempty"`
}

// Thinking is a model's reasoning before an answer. Data is the model's encoding of it, which
// is returned to the model unchanged.
type Thinking struct {
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Call is a model's request to run a tool.
type Call struct {
	ID   string          `json:"id"` // unique in the thread's line
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// Result is the result of a call.
type Result struct {
	Call  string `json:"call"`
	Name  string `json:"name"`
	Text  string `json:"text,omitempty"`
	Parts []Part `json:"parts,omitempty"` // images and files beside the text
	Error bool   `json:"error,omitempty"` // the call failed
}

// Text returns a user's message with one text.
func Text(text string) Message { return Message{Role: User, Parts: []Part{{Text: text}}} }

// Text returns all text of a message, joined by newlines.
func (m *Message) Text() string {
	var all []string
	for _, p := range m.Parts {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

// Calls returns the calls of a message, in order.
func (m *Message) Calls() (calls []Call) {
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
