package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/dalsegno/segno/internal/endpoint"
)

// exchange is one request and its answer as HTTP has them.
type exchange struct {
	idle    time.Duration // how long the server may be silent in an answer
	secrets []string      // credentials that were sent; no error or log may contain them
	host    string        // where it was sent, "" if it was not
	began   bool          // the answer is what it should be, at least in its beginning
}

var errNoKey = errors.New("there is no key")

const (
	maxErrorBody = 64 << 10 // of an answer that says no, how much is read
	maxWhole     = 32 << 20 // of an answer that comes in one piece
)

// send sends a request, and reads of the answer what the SDK would not understand:
// errors that are not the API's own, and answers that are no stream of events.
func (x *exchange) send(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	if r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "" {
		return nil, errNoKey
	}
	x.secrets, x.host = endpoint.Secrets(r), r.URL.Host
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
func eventsOf(body io.Reader, header http.Header) ([]byte, error) {
	var whole json.RawMessage
	if err := json.NewDecoder(io.LimitReader(body, maxWhole)).Decode(&whole); err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	var message map[string]json.RawMessage
	var blocks []json.RawMessage
	_ = json.Unmarshal(whole, &message)
	if string(message["type"]) != `"message"` || json.Unmarshal(message["content"], &blocks) != nil {
		return nil, &statusError{header: header, reason: reasonOf(whole, 0)}
	}
	delta := map[string]json.RawMessage{"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
	if stop := string(delta["stop_reason"]); stop == "" || stop == "null" {
		delta["stop_reason"] = json.RawMessage(`"end_turn"`)
	}
	message["content"] = json.RawMessage("[]")
	type event map[string]any
	all := []event{{"type": "message_start", "message": message}}
	for i, b := range blocks {
		all = append(all, event{"type": "content_block_start", "index": i, "content_block": b}, event{"type": "content_block_stop", "index": i})
	}
	all = append(all, event{"type": "message_delta", "delta": delta, "usage": message["usage"]}, event{"type": "message_stop"})
	var stream bytes.Buffer
	for _, e := range all {
		data, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("read an answer: %w", err)
		}
		fmt.Fprintf(&stream, "event: %s\ndata: %s\n\n", e["type"], data)
	}
	return stream.Bytes(), nil
}

// tell is an error in words for people, without what is secret in the exchange.
func (x *exchange) tell(text string, err error) error { return endpoint.Tell(text, x.secrets, err) }
