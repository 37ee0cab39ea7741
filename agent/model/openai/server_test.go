package openai_test

import (
	"fmt"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/openai"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a scripted server. It makes models that send requests to it.
type server struct{ *modelrig.Server }

func newServer(t *testing.T, answers ...http.HandlerFunc) *server {
	return &server{modelrig.NewServer(t, answers...)}
}

func (s *server) model(opts ...openai.Options) agent.Model {
	o := append(opts, openai.Options{})[0]
	o.BaseURL, o.Key, o.HTTPClient = s.URL+"/v1", "secret-key", s.Client()
	return openai.New("test", o)
}

// events streams chunks, each a line of JSON or [DONE].
func events(all ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range all {
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		}
	}
}

// delta is a chunk with a piece of the answer.
func delta(d string) string {
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"test","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

// whole returns an answer of deltas, including its end.
func whole(finish string, deltas ...string) http.HandlerFunc {
	all := []string{delta(`{"role":"assistant","content":""}`)}
	for _, d := range deltas {
		all = append(all, delta(d))
	}
	return events(append(all,
		`{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"`+finish+`"}]}`,
		`{"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":60,"completion_tokens":7,"total_tokens":67,"prompt_tokens_details":{"cached_tokens":30}}}`,
		"[DONE]")...)
}

const ok = `{"content":"ok"}`
