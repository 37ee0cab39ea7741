package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/anthropic"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a scripted server. It makes models that send requests to it.
type server struct{ *modelrig.Server }

func newServer(t *testing.T, answers ...http.HandlerFunc) *server {
	return &server{modelrig.NewServer(t, answers...)}
}

func (s *server) model(opts ...anthropic.Options) agent.Model {
	o := append(opts, anthropic.Options{})[0]
	o.BaseURL, o.Key, o.HTTPClient = s.URL, "secret-key", s.Client()
	return anthropic.New("claude-test", o)
}

// events streams events, each a line of JSON.
func events(all ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range all {
			send(w, data)
		}
	}
}

func send(w http.ResponseWriter, data string) {
	var e struct{ Type string }
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, data)
	w.(http.Flusher).Flush()
}

const start = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}`

func end(reason string) []string {
	return []string{
		`{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":7}}`,
		`{"type":"message_stop"}`,
	}
}

// whole returns an answer of content blocks. Each block is given as its start, its deltas and its
// end.
func whole(reason string, inside ...string) http.HandlerFunc {
	return events(append(append([]string{start}, inside...), end(reason)...)...)
}

func text(t string) []string {
	return []string{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + t + `"}}`,
		`{"type":"content_block_stop","index":0}`}
}
