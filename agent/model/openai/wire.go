package openai

import "encoding/json"

// request is the body of a request.
type request struct {
	Model           string    `json:"model"`
	Messages        []message `json:"messages"`
	Tools           []tool    `json:"tools,omitempty"`
	ToolChoice      string    `json:"tool_choice,omitempty"`
	ReasoningEffort string    `json:"reasoning_effort,omitempty"`
	MaxTokens       int       `json:"max_tokens,omitempty"`
	MaxCompletion   int       `json:"max_completion_tokens,omitempty"` // the name that OpenAI's newer models accept
	PromptCacheKey  string    `json:"prompt_cache_key,omitempty"`
	Stream          bool      `json:"stream"`
	StreamOptions   struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // a string, or []part
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"` // of a result
	thinking
}

// thinking has the fields in which servers send a model's thinking. OpenAI's own API has
// neither.
type thinking struct {
	ReasoningContent string `json:"reasoning_content,omitempty"`
	Reasoning        string `json:"reasoning,omitempty"`
}

type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
	File     *file     `json:"file,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type file struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chunk is a piece of an answer.
type chunk struct {
	Choices []struct {
		Index        int
		Delta        delta
		Message      *delta // of an answer that is not a stream
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error json.RawMessage
}

type delta struct {
	Content, Refusal string
	thinking
	ToolCalls []callPiece `json:"tool_calls"`
}

type callPiece struct {
	Index    int
	ID       string
	Function struct {
		Name      string
		Arguments json.RawMessage // a string, or with some servers an object
	}
}
