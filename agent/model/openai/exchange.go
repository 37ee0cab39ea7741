package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/dalsegno/segno/internal/endpoint"
)

// exchange is one request and its answer as HTTP has them.
type exchange struct {
	idle    time.Duration // how long the server may be silent in an answer
	secrets []string      // credentials that were sent; no error or log may contain them
	began   bool          // the answer is what it should be, at least in its beginning
}

const (
	maxErrorBody = 64 << 10 // of an answer that says no, how much is read
	maxWhole     = 32 << 20 // of an answer that comes in one piece
)

// send sends a request, and reads of the answer what the SDK would not understand:
// errors, of which it knows one form, and answers that are no stream of events.
func (x *exchange) send(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	x.secrets = endpoint.Secrets(r)
	res, err := next(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		defer res.Body.Close() // nothing to lose: it was only read
		body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		if err != nil {
			body = nil // the status says enough
		}
		return nil, &statusError{header: res.Header, reason: reasonOf(body, res.StatusCode)}
	}
	if err := endpoint.Stream(res, x.idle, eventsOf); err != nil {
		return nil, err
	}
	x.began = true
	return res, nil
}

// eventsOf makes a stream of an answer that came in one piece.
func eventsOf(body io.Reader, _ http.Header) ([]byte, error) {
	var whole json.RawMessage
	if err := json.NewDecoder(io.LimitReader(body, maxWhole)).Decode(&whole); err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	var answer map[string]json.RawMessage
	var choices []map[string]json.RawMessage
	_ = json.Unmarshal(whole, &answer)
	_ = json.Unmarshal(answer["choices"], &choices)
	if len(choices) == 0 || choices[0]["message"] == nil {
		return nil, &statusError{reason: reasonOf(whole, 0)}
	}
	for _, choice := range choices {
		choice["delta"] = numbered(choice["message"])
		delete(choice, "message")
		if finish := string(choice["finish_reason"]); finish == "" || finish == "null" {
			choice["finish_reason"] = json.RawMessage(`"stop"`)
		}
	}
	delete(answer, "error") // null, beside an answer, and the SDK would stop at it
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

// tell is an error in words for people, without what is secret in the exchange.
func (x *exchange) tell(text string, err error) error { return endpoint.Tell(text, x.secrets, err) }
