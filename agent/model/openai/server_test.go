package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server sends scripted answers, one per request, and keeps the requests.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
}

// newServer serves answers in turn; a request too many gets the last.
func newServer(t *testing.T, answers ...http.HandlerFunc) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.bodies = append(s.bodies, string(body))
		s.headers = append(s.headers, r.Header.Clone())
		answer := answers[min(len(s.bodies), len(answers))-1]
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

// model is one that asks s.
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

// whole is an answer of deltas, with its end.
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

// ask collects an answer: the pieces of text and of thinking, the reply, the error.
func ask(t *testing.T, m agent.Model, r agent.Request) (pieces []string, reply *agent.Reply, err error) {
	t.Helper()
	for c, e := range m.Generate(t.Context(), r) {
		switch {
		case e != nil:
			err = e
		case c.Reply != nil:
			reply = c.Reply
		case c.Thinking != "":
			pieces = append(pieces, "~"+c.Thinking)
		default:
			pieces = append(pieces, c.Text)
		}
	}
	return pieces, reply, err
}

var hello = agent.Request{Messages: []agent.Message{agent.Text("hello")}}

// same compares JSON, keys in any order.
func same(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	a, _ := json.MarshalIndent(g, "", " ")
	b, _ := json.MarshalIndent(w, "", " ")
	if string(a) != string(b) {
		al, bl := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
		for i := range min(len(al), len(bl)) {
			if al[i] != bl[i] {
				t.Errorf("line %d is %s, want %s", i, al[i], bl[i])
				break
			}
		}
		t.Errorf("got %s", got)
	}
}
