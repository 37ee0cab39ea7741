package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
	var message map[string]json.RawMessage
	var blocks []json.RawMessage
	_ = json.Unmarshal(whole, &message)
	if string(message["type"]) != `"message"` || json.Unmarshal(message["content"], &blocks) != nil {
		return nil, readRefusal(header, whole, 0)
	}
	delta := map[string]json.RawMessage{"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
	if stop := string(delta["stop_reason"]); stop == "" || stop == "null" {
		delta["stop_reason"] = json.RawMessage(`"end_turn"`)
	}
	message["content"] = json.RawMessage("[]")
	all := []map[string]any{{"type": "message_start", "message": message}}
	for i, b := range blocks {
		all = append(all, map[string]any{"type": "content_block_start", "index": i, "content_block": b}, map[string]any{"type": "content_block_stop", "index": i})
	}
	all = append(all, map[string]any{"type": "message_delta", "delta": delta, "usage": message["usage"]}, map[string]any{"type": "message_stop"})
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
