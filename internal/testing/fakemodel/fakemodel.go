// Package fakemodel is a model server for tests. The prompt contains its answers, so
// that a test can script each turn of a real agent. An answer depends only on the
// request, so a resumed or forked session gets the same answers again.
//
// It speaks the Anthropic Messages API (POST /v1/messages, streaming and not,
// and count_tokens), the OpenAI Responses API (POST /v1/responses) and the Gemini
// API (POST /v1beta/models/MODEL:METHOD). A user text that contains
//
//	<<fake [steps]>>
//
// with a JSON array scripts what follows it: the i-th model call after that text
// gets step i. The server counts model calls as the assistant messages after the newest
// user text with a directive. It does not search tool results, nor lines quoted with "> ",
// for directives. A prompt without a directive continues the script before it, so that a
// test can resume an interrupted turn. The answer to a call after the last step, or in a
// conversation without a directive, is "ok". The answer to a directive that is not valid
// JSON has status 400, which shows a typing error in a test at once.
//
// A step is a string, which is a text answer, or an object:
//
//	{"tool":"Bash","input":{…},"text":"before the call"}
//	{"tools":[{"tool":"Read","input":{…}},{"tool":"Bash","input":{…}}]}   calls in parallel
//	{"thinking":"…","text":"…"}
//	{"text":"…","delay":0.5}                    seconds before the first byte
//	{"text":"…","until":"/dir/file"}            not before the file exists
//	{"text":"…","stop":"max_tokens"}            another stop reason
//	{"raw":[…]}                                 content blocks (or output items) as they are
//	{"empty":true}                              an answer with no content
//	{"error":529,"times":2,"message":"…"}       an API error, the first 2 times
//	{"drop":true,"text":"part"}                 the connection breaks after half of the text
//	{"hang":true,"text":"part"}                 after the text, if any, nothing more, until the client goes
//
// error and drop create no assistant message, so they do not advance the count. Without
// "times", the script stays at that step permanently. With it, the server skips the step
// after that many uses. Besides its log, a [Server] stores only these uses, by the text of
// the directive, so conversations that repeat a directive share them.
//
// Ids of messages and tool calls are derived from the user texts and the position in the
// conversation, so identical requests get identical answers, byte for byte.
//
// A server accepts a call with messages that the real API rejects, unless the test sets
// [Server.Strict].
//
// Agents also make side calls: titles, warm-ups, token counts, summaries for a
// compaction. The server answers them without the script and logs them with
// [Request.Side] set. The instructions of a /compact may script its summary.
package fakemodel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Server answers model calls and logs them. It is an [http.Handler] and is safe for
// concurrent use. [New] returns one.
type Server struct {
	mu      sync.Mutex
	log     []Request
	changed chan struct{} // closed and replaced whenever log grows
	used    map[useKey]int

	isStrict bool
	rejected []string
}

// useKey identifies a step whose uses are counted.
type useKey struct {
	directive string
	step      int
}

// New returns a server with an empty log.
func New() *Server {
	return &Server{changed: make(chan struct{}), used: map[useKey]int{}}
}

// Listen serves s on a new loopback port until the caller calls stop. stop breaks every open
// connection, ends every hanging answer and returns when the handlers have returned.
func (s *Server) Listen() (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("fakemodel: listening on loopback: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var open sync.WaitGroup
	srv := &http.Server{
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Done()
			s.ServeHTTP(w, r)
		}),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l) // always ErrServerClosed: only stop ends it
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		_ = srv.Close() // the listener is closed even if it fails
		<-served
		open.Wait()
	})
	return "http://" + l.Addr().String(), stop, nil
}

// ServeHTTP logs the request, then answers it. It logs the request before the answer
// starts, so that [Server.WaitFor] can find a call that hangs.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client disconnected while it sent the request
	}
	req := newRequest(r, body)
	s.append(req)
	switch {
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusOK)
	case r.Method == http.MethodPost && req.Path == pathCountTokens:
		writeJSON(w, http.StatusOK, map[string]any{"input_tokens": tokens(len(body))})
	case r.Method == http.MethodPost && s.reject(w, req):
	case r.Method == http.MethodPost && req.Path == pathMessages:
		s.serveMessages(w, r, req)
	case r.Method == http.MethodPost && req.Path == pathResponses:
		s.serveResponses(w, r, req)
	case r.Method == http.MethodPost && strings.HasPrefix(req.Path, geminiPath):
		s.serveGemini(w, r, req)
	case r.Method == http.MethodGet && req.Path == "/v1/models":
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{}, "models": []any{}})
	default:
		writeJSON(w, http.StatusNotFound, anthropicError("not_found_error", r.Method+" "+req.Path))
	}
}

func (s *Server) append(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Seq = len(s.log)
	s.log = append(s.log, r)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Requests returns the log so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Calls returns the logged model calls, without side calls and probes.
func (s *Server) Calls() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return !r.Call() })
}

// WaitFor returns the first past or future request that ok accepts.
func (s *Server) WaitFor(ctx context.Context, ok func(Request) bool) (Request, error) {
	for next := 0; ; {
		s.mu.Lock()
		fresh, changed := s.log[next:], s.changed
		s.mu.Unlock()
		for _, r := range fresh {
			if ok(r) {
				return r, nil
			}
		}
		next += len(fresh)
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("fakemodel: waiting for a request (%d seen): %w", next, ctx.Err())
		}
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may have disconnected
}

// tokens returns a plausible count for n bytes. Agents show the count, and it decides when
// they compact.
func tokens(n int) int { return n/4 + 1 }
