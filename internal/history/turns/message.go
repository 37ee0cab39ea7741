package turns

import (
	"encoding/json"
	"strings"
)

// message is a message of a Go agent, as the entries of its steps record it.
type message struct {
	Role  string `json:"role"`
	Model string `json:"model"`
	Parts []struct {
		Text  string `json:"text"`
		Image *Image `json:"image"`
		Call  *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"call"`
		Result json.RawMessage `json:"result"`
	} `json:"parts"`
}

// messageResult is the result of a call in a message.
type messageResult struct {
	Call  string `json:"call"`
	Text  string `json:"text"`
	Parts []struct {
		Image *Image `json:"image"`
	} `json:"parts"`
	Error bool `json:"error"`
}

func (m *message) text() string {
	var all []string
	for _, p := range m.Parts {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}
