package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Model is a language model. The packages below agent/model are adapters. All methods must be
// safe for concurrent use.
type Model interface {
	// Name is the provider's name, a slash and the model's: "offline/plain".
	Name() string
	// Generate asks the model once. It yields pieces of the answer as they arrive, and the Reply
	// as the last chunk. An error ends the sequence. The agent retries after a [ModelError] with
	// Retry.
	Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Request is a request to a model.
type Request struct {
	System    string
	Messages  []Message  // a call's result always follows the call
	Tools     []ToolSpec // the tools that the model may call
	NoCalls   bool       // the model must not call the tools: they explain the calls in Messages
	MaxTokens int        // limit of the answer; 0 is the model's default
	Thread    string     // of the conversation, for a model's cache
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments, an object
}

// Chunk is a piece of an answer: text, thinking, or at the end the Reply.
type Chunk struct {
	Text     string
	Thinking string
	Reply    *Reply
}

// Reply is a model's whole answer.
type Reply struct {
	Message Message
	Stop    Stop
	Usage   Usage
}

// Stop is why a model stopped.
type Stop string

// The reasons to stop.
const (
	StopEnd     Stop = "end"     // the answer is complete
	StopTools   Stop = "tools"   // the model waits for results
	StopLength  Stop = "length"  // the answer reached a limit
	StopRefusal Stop = "refusal" // the model refused
)

// Usage is the cost of a model call, in tokens.
type Usage struct {
	Input      int `json:"input,omitempty"` // the whole prompt, cached or not
	Output     int `json:"output,omitempty"`
	CacheRead  int `json:"cache_read,omitempty"`  // of Input: read from the provider's cache
	CacheWrite int `json:"cache_write,omitempty"` // of Input: written to it
}

func (u *Usage) add(more Usage) {
	u.Input += more.Input
	u.Output += more.Output
	u.CacheRead += more.CacheRead
	u.CacheWrite += more.CacheWrite
}

// ModelError is a failure of a model or its server.
type ModelError struct {
	Status int           // HTTP status, 0 without an answer
	Retry  bool          // the same request may succeed later
	After  time.Duration // how long the server asks to wait, 0 if it does not
	Err    error
}

func (e *ModelError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("status %d: %v", e.Status, e.Err)
	}
	return e.Err.Error()
}

func (e *ModelError) Unwrap() error { return e.Err }
