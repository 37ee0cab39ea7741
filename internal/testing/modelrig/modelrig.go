// Package modelrig is a scripted model server for the tests of the adapters below agent/model.
package modelrig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/dalsegno/segno/agent"
)

// Server sends scripted answers, one per request, and keeps the requests.
type Server struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
}

// NewServer starts a server that sends the answers in order and then repeats the last one.
func NewServer(t *testing.T, answers ...http.HandlerFunc) *Server {
	s := &Server{}
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

// Requests returns the bodies of the requests.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

// LastHeader returns the header of the newest request.
func (s *Server) LastHeader() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[len(s.headers)-1]
}

// Redirect returns a client that sends every request to the server, regardless of the
// request's host.
func (s *Server) Redirect() *http.Client { return &http.Client{Transport: toServer{s}} }

type toServer struct{ s *Server }

func (t toServer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(t.s.URL, "http://")
	return t.s.Client().Transport.RoundTrip(r)
}

// Document returns a handler that answers with a body in one piece.
func Document(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
}

// Hello returns a request with one message.
func Hello() agent.Request { return agent.Request{Messages: []agent.Message{agent.Text("hello")}} }

// Ask collects an answer: the pieces of text and, after a "~", of thinking, the reply and the
// error.
func Ask(t *testing.T, m agent.Model, r agent.Request) (pieces []string, reply *agent.Reply, err error) {
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

// IsTransient reports whether the agent would retry after an error.
func IsTransient(err error) bool {
	var failed *agent.ModelError
	return errors.As(err, &failed) && failed.Retry
}

// SameJSON compares two JSON documents. The keys of an object may be in any order.
func SameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
