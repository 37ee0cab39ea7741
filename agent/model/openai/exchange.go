package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// maxWhole is how much is read of an answer that comes in one piece.
const maxWhole = 32 << 20

// readRefusal reads the error of an answer that says no.
func readRefusal(header http.Header, body []byte, status int) error {
	return &statusError{header: header, reason: reasonOf(body, status)}
}

// eventsOf makes a stream of an answer that came in one piece.
func eventsOf(body io.Reader, header http.Header) ([]byte, error) {
	var whole json.RawMessage
	if err := json.NewDecoder(io.LimitReader(body, maxWhole)).Decode(&whole); err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	var answer map[string]json.RawMessage
	var choices []map[string]json.RawMessage
	_ = json.Unmarshal(whole, &answer)
	_ = json.Unmarshal(answer["choices"], &choices)
	if len(choices) == 0 || choices[0]["message"] == nil {
		return nil, readRefusal(header, whole, 0)
	}
	for _, choice := range choices {
		choice["delta"] = numbered(choice["message"])
		delete(choice, "message")
		if finish := string(choice["finish_reason"]); finish == "" || finish == "null" {
			choice["finish_reason"] = json.RawMessage(`"stop"`)
		}
	}
	var err error
	if answer["choices"], err = json.Marshal(choices); err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	chunk, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	return fmt.Appendf(nil, "data: %s\n\ndata: [DONE]\n\n", chunk), nil
}

// numbered is a message with its calls numbered, as those of a stream are.
func numbered(message json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	var calls []map[string]json.RawMessage
	if json.Unmarshal(message, &fields) != nil || json.Unmarshal(fields["tool_calls"], &calls) != nil {
		return message
	}
	for i, c := range calls {
		c["index"] = json.RawMessage(strconv.Itoa(i))
	}
	var err error
	if fields["tool_calls"], err = json.Marshal(calls); err != nil {
		return message
	}
	with, err := json.Marshal(fields)
	if err != nil {
		return message
	}
	return with
}
