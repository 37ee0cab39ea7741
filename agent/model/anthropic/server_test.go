package anthropic_test

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
	"github.com/dalsegno/segno/agent/model/anthropic"
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

// whole is an answer of content blocks, each given as its start, its deltas and its
// end.
func whole(reason string, inside ...string) http.HandlerFunc {
	return events(append(append([]string{start}, inside...), end(reason)...)...)
}

func text(t string) []string {
	return []string{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + t + `"}}`,
		`{"type":"content_block_stop","index":0}`}
}

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
