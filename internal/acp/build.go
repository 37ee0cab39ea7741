package acp

import (
	"bytes"
	"encoding/json"
)

// Encode is JSON as people write it: <, > and & stand for themselves. v must be
// something that encodes.
func Encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("acp: internal error: a message does not encode: " + err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// envelope is a message of our own.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

func (e envelope) line() []byte {
	e.Version = "2.0"
	return append(Encode(e), '\n')
}

// Request is the line of a request. id is JSON.
func Request(id, method string, params json.RawMessage) []byte {
	return envelope{ID: json.RawMessage(id), Method: method, Params: params}.line()
}

// Notification is the line of a notification.
func Notification(method string, params json.RawMessage) []byte {
	return envelope{Method: method, Params: params}.line()
}

// Result is the line that answers the request whose id is written so; "" is null,
// and no result is null too.
func Result(id string, result json.RawMessage) []byte {
	return envelope{ID: orNull(id), Result: orNull(string(result))}.line()
}

// Failure is the line that answers a request with an error.
func Failure(id string, err *Error) []byte {
	return envelope{ID: orNull(id), Error: err}.line()
}

func orNull(value string) json.RawMessage {
	if value == "" {
		value = "null"
	}
	return json.RawMessage(value)
}
