package agent

import (
	"encoding/json"
	"strings"
	"time"
)

// Role says who a message is from.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // the results of calls
)

// Message is one message of a conversation, whatever model wrote it. It is what
// the log keeps, as JSON, and reads back field by field.
type Message struct {
	ID    string    `json:"id,omitempty"` // never changes, in any fork
	Role  Role      `json:"role"`
	Parts []Part    `json:"parts"`
	Model string    `json:"model,omitempty"` // of an assistant's message: which wrote it
	Time  time.Time `json:"time,omitzero"`
	Stop  Stop      `json:"stop,omitempty"` // of an assistant's message: length or refusal, if that cut it short
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

// Blob is an image or a file: its bytes, or where they are.
type Blob struct {
	Type string `json:"type"` // media type: "image/png"
	Name string `json:"name,omitempty"`
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url,omitempty"`
}

// Thinking is what a model thought before it spoke. Data is the model's own
// encoding of it, handed back as it was.
type Thinking struct {
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Call is a model's wish to use a tool.
type Call struct {
	ID   string          `json:"id"` // the model's; unique in its message
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// Result is what came of a call.
type Result struct {
	Call  string `json:"call"`
	Name  string `json:"name"`
	Text  string `json:"text,omitempty"`
	Parts []Part `json:"parts,omitempty"` // images and files beside the text
	Error bool   `json:"error,omitempty"` // the model should know that it went wrong
}

// Text returns a user's message of one text.
func Text(text string) Message { return Message{Role: User, Parts: []Part{{Text: text}}} }

// Text is all the text of a message.
func (m *Message) Text() string {
	var all []string
	for _, p := range m.Parts {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

// Calls are the calls of a message, in order.
func (m *Message) Calls() (calls []Call) {
	for _, p := range m.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}
