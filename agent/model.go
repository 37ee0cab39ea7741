package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Model is a language model. agent/model has adapters; all methods may be called
// at once.
type Model interface {
	// Name is the provider's name, a slash and the model's: "offline/plain".
	Name() string
	// Generate asks the model once, and does not try again: the agent does. It
	// yields what the model says as it says it, and as its last chunk the Reply.
	// An error ends it; one that may pass is a [ModelError].
	Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Request is what a model is asked.
type Request struct {
	System    string
	Messages  []Message  // alternating as the loop made them; a call's result always follows it
	Tools     []ToolSpec // that may be called
	NoCalls   bool       // none of them now: they are named for the calls the messages have
	MaxTokens int        // of the answer; 0 is the model's default
	Thread    string     // whose conversation it is, for a model that keeps a cache
}

// ToolSpec is what a model is told of a tool.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments, an object
}

// Chunk is a piece of an answer: some text, some thinking, or at the end the Reply.
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

// Stop says why a model stopped.
type Stop string

// The reasons to stop.
const (
	StopEnd     Stop = "end"     // it has said what it had to say
	StopTools   Stop = "tools"   // it waits for results
	StopLength  Stop = "length"  // it ran into a limit
	StopRefusal Stop = "refusal" // it will not
)

// Usage is what a call cost, in tokens.
type Usage struct {
	Input      int `json:"input,omitempty"` // all of the prompt, cached or not
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

// ModelError is a model's or its server's failure.
type ModelError struct {
	Status int           // HTTP status, 0 if there was no answer
	Retry  bool          // the same request may succeed later
	After  time.Duration // how long the server asks to wait, 0 if it does not say
	Err    error
}

func (e *ModelError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("status %d: %v", e.Status, e.Err)
	}
	return e.Err.Error()
}

func (e *ModelError) Unwrap() error { return e.Err }
