package anthropic

import "encoding/json"

// request is the body of a request.
type request struct {
	Model      string    `json:"model"`
	MaxTokens  int       `json:"max_tokens"`
	System     []*block  `json:"system,omitempty"`
	Messages   []message `json:"messages"`
	Tools      []*tool   `json:"tools,omitempty"`
	ToolChoice *kind     `json:"tool_choice,omitempty"`
	Thinking   *thinking `json:"thinking,omitempty"`
	Stream     bool      `json:"stream"`
}

const (
	userRole      = "user"
	assistantRole = "assistant"
)

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // *block, or json.RawMessage of a block that the API sent
}

// block is a piece of content. Its type determines which of the fields it has.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *source         `json:"source,omitempty"` // of an image or a document
	Title     string          `json:"title,omitempty"`
	ID        string          `json:"id,omitempty"` // of a call
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"` // of a result
	Content   []*block        `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Cache     *cacheMark      `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Cache       *cacheMark      `json:"cache_control,omitempty"`
}

type thinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens,omitempty"`
}

// kind is an object that only has a type.
type kind struct {
	Type string `json:"type"`
}

// cacheMark marks the end of a prefix that the provider's prompt cache keeps.
type cacheMark struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"` // "" is five minutes
}

// event is one event of an answer. Its type determines which of the fields it has.
type event struct {
	Type    string
	Index   int
	Message struct {
		StopReason string `json:"stop_reason"`
		Usage      json.RawMessage
	}
	Block json.RawMessage `json:"content_block"`
	Delta struct {
		Text, Thinking, Signature string
		PartialJSON               string `json:"partial_json"`
		StopReason                string `json:"stop_reason"`
	}
	Usage json.RawMessage
}

// usage is the cost of an answer. Each event with a usage contains totals, but only of some fields.
type usage struct {
	Input      int `json:"input_tokens"` // of the prompt, without the cached tokens
	Output     int `json:"output_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
}
