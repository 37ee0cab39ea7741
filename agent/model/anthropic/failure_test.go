package anthropic_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/anthropic"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

// fails answers with an error.
func fails(status int, kind string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"type":"error","error":{"type":"` + kind + `","message":"as scripted"}}`))
	}
}

func TestErrorsTellWhetherToRetry(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   agent.ModelError
		kind   segno.Kind
	}{
		"bad request":  {fails(400, "invalid_request_error"), agent.ModelError{Status: 400}, segno.KindInternal},
		"no key":       {fails(401, "authentication_error"), agent.ModelError{Status: 401}, segno.KindRefused},
		"not allowed":  {fails(403, "permission_error"), agent.ModelError{Status: 403}, segno.KindRefused},
		"no model":     {fails(404, "not_found_error"), agent.ModelError{Status: 404}, segno.KindInternal},
		"too many":     {fails(429, "rate_limit_error", "Retry-After", "7"), agent.ModelError{Status: 429, Retry: true, After: 7 * time.Second}, segno.KindInternal},
		"in ms":        {fails(429, "rate_limit_error", "Retry-After-Ms", "1500"), agent.ModelError{Status: 429, Retry: true, After: 1500 * time.Millisecond}, segno.KindInternal},
		"quota":        {fails(429, "rate_limit_error", "X-Should-Retry", "false"), agent.ModelError{Status: 429}, segno.KindInternal},
		"overloaded":   {fails(529, "overloaded_error"), agent.ModelError{Status: 529, Retry: true}, segno.KindInternal},
		"server":       {fails(500, "api_error"), agent.ModelError{Status: 500, Retry: true}, segno.KindInternal},
		"in its midst": {events(start, `{"type":"error","error":{"type":"overloaded_error","message":"as scripted"}}`), agent.ModelError{Status: 529, Retry: true}, segno.KindInternal},
	} {
		s := newServer(t, c.answer)
		_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
		var me *agent.ModelError
		if !errors.As(err, &me) || reply != nil {
			t.Fatalf("%s: %v, %v", name, reply, err)
		}
		if got := (agent.ModelError{Status: me.Status, Retry: me.Retry, After: me.After}); got != c.want || segno.KindOf(err) != c.kind {
			t.Errorf("%s: %+v of kind %v, want %+v", name, got, segno.KindOf(err), c.want)
		}
		if !strings.Contains(err.Error(), "as scripted") || strings.Contains(err.Error(), "secret-key") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: it says %q", name, err)
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
	}
}

func TestRetryAfterDate(t *testing.T) {
	s := newServer(t, fails(503, "api_error", "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)))
	_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	var me *agent.ModelError
	if !errors.As(err, &me) || me.After < 50*time.Minute || me.After > time.Hour {
		t.Errorf("%+v", me)
	}
}

func TestTruncatedAnswerIsTransient(t *testing.T) {
	begun := append([]string{start}, text("half an ans")[:2]...)
	for name, answer := range map[string]http.HandlerFunc{
		"the connection breaks": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			panic(http.ErrAbortHandler)
		},
		"it ends too early": events(begun...),
		"it says nothing":   events(),
		"it is nonsense": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("event: message_start\ndata: nonsense\n\n"))
		},
		"its error is nonsense": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("event: error\ndata: nonsense\n\n"))
		},
		"before it says anything": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it is not JSON": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("event: message_delta\ndata: {\"type\n\n"))
		},
		"blocks out of order": events(start, `{"type":"content_block_stop","index":4}`),
	} {
		s := newServer(t, answer)
		_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
		if !modelrig.IsTransient(err) || reply != nil {
			t.Errorf("%s: %v, %v", name, reply, err)
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
	}
}

// TestHintNamesTheKeyInUse has the server refuse a key of the program, and a key of the environment.
func TestHintNamesTheKeyInUse(t *testing.T) {
	s := newServer(t, fails(401, `{"error":{"type":"authentication_error","message":"as scripted"}}`))
	t.Setenv("ANTHROPIC_BASE_URL", s.URL)
	t.Setenv("ANTHROPIC_API_KEY", "of the environment")
	for want, o := range map[string]anthropic.Options{
		"set Options.Key to":       {Key: "of the program", HTTPClient: s.Client()},
		"set ANTHROPIC_API_KEY to": {HTTPClient: s.Client()},
	} {
		_, _, err := modelrig.Ask(t, anthropic.New("m", o), modelrig.Hello())
		if hint := segno.HintOf(err); !strings.HasPrefix(hint, want) {
			t.Errorf("hint %q, want %q", hint, want)
		}
	}
}

func TestUnreachableServer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, _, err := modelrig.Ask(t, anthropic.New("m", anthropic.Options{Key: "k", BaseURL: gone.URL}), modelrig.Hello())
	if !modelrig.IsTransient(err) {
		t.Errorf("%v", err)
	}
}

func TestMissingKeyIsPermanent(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	s := newServer(t, whole("end_turn", text("ok")...))
	_, _, err := modelrig.Ask(t, anthropic.New("m", anthropic.Options{BaseURL: s.URL}), modelrig.Hello())
	var me *agent.ModelError
	if !errors.As(err, &me) || me.Retry || segno.KindOf(err) != segno.KindRefused || !strings.Contains(segno.HintOf(err), "ANTHROPIC_API_KEY") || len(s.Requests()) > 0 {
		t.Errorf("%v, %d requests", err, len(s.Requests()))
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than a line: %q", err)
	}
}

func TestContextEndsAnswer(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		events(append([]string{start}, text("half")[:2]...)...)(w, r)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said string
	var ended error
	for c, err := range s.model().Generate(ctx, modelrig.Hello()) {
		said, ended = said+c.Text, err
		cancel()
	}
	var me *agent.ModelError
	if said != "half" || !errors.Is(ended, context.Canceled) || errors.As(ended, &me) {
		t.Errorf("%q, %v", said, ended)
	}
}

func TestBreakClosesConnection(t *testing.T) {
	gone := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		events(append([]string{start}, text("half")[:2]...)...)(w, r)
		<-r.Context().Done()
		close(gone)
	})
	for range s.model().Generate(t.Context(), modelrig.Hello()) {
		break
	}
	<-gone
}

func TestARequestRefusedForItsThoughtsIsSentWithoutThem(t *testing.T) {
	bound := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = w.Write([]byte("{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.\"}}"))
	}
	r := agent.Request{Messages: []agent.Message{agent.Text("a"), {Role: agent.Assistant, Model: "anthropic/claude-test", Parts: []agent.Part{
		{Thinking: &agent.Thinking{Text: "old thought", Data: []byte(`{"type":"thinking","thinking":"old thought","signature":"s"}`)}}, {Text: "b"}}}, agent.Text("c")}}
	s := newServer(t, bound, whole("end_turn", text("ok")...))
	_, reply, err := modelrig.Ask(t, s.model(), r)
	if err != nil || reply.Message.Text() != "ok" {
		t.Fatalf("%v, %v", reply, err)
	}
	if got := s.Requests(); len(got) != 2 || !strings.Contains(got[0], "old thought") || strings.Contains(got[1], "old thought") {
		t.Errorf("requests: %q", got)
	}
	always := newServer(t, bound)
	if _, _, err := modelrig.Ask(t, always.model(), r); modelrig.IsTransient(err) || len(always.Requests()) != 2 {
		t.Errorf("%v after %d requests", err, len(always.Requests()))
	}
}

func TestNoThoughtIsAskedForWhereNoneIsSent(t *testing.T) {
	for _, said := range []string{
		"messages.1.content.0: Invalid `signature` in `thinking` block",
		"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block",
	} {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = w.Write([]byte(`{"type":"error","error":{"type":"invalid_request_error","message":"` + said + `"}}`))
		}, whole("end_turn", text("ok")...))
		messages := calling(agent.Call{ID: "a", Name: "ls"})
		messages[1].Model = "anthropic/claude-test"
		messages[1].Parts = append([]agent.Part{{Thinking: &agent.Thinking{Data: []byte(`{"type":"thinking","thinking":"hm","signature":"s"}`)}}}, messages[1].Parts...)
		if _, _, err := modelrig.Ask(t, s.model(anthropic.Options{ThinkingBudget: 2048}), agent.Request{Messages: messages}); err != nil {
			t.Fatal(err)
		}
		if first, second := s.Requests()[0], s.Requests()[1]; !strings.Contains(first, `"budget_tokens"`) || strings.Contains(second, "thinking") {
			t.Errorf("sent %s, then %s", first, second)
		}
	}
}

// TestAConversation has a conversation with a server that is also used to test other
// agents.
func TestAConversation(t *testing.T) {
	f := fakemodel.New()
	url, stop, err := f.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	m := anthropic.New("claude-test", anthropic.Options{BaseURL: url, Key: "k", HTTPClient: hc})
	r := agent.Request{
		Messages: []agent.Message{agent.Text(`<<fake [{"error":529,"times":1},{"thinking":"hm","tool":"read","input":{"path":"a"},"text":"reading"},{"drop":true,"text":"half of it","times":1},"done"]>>`)},
		Tools:    []agent.ToolSpec{{Name: "read", Schema: []byte(`{"type":"object"}`)}},
	}
	var errs int
	for range 6 {
		_, reply, err := modelrig.Ask(t, m, r)
		if err != nil {
			if !modelrig.IsTransient(err) {
				t.Fatal(err)
			}
			errs++
			continue
		}
		r.Messages = append(r.Messages, reply.Message)
		if reply.Stop == agent.StopEnd {
			break
		}
		call := reply.Message.Calls()[0]
		r.Messages = append(r.Messages, agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: call.ID, Name: call.Name, Text: "contents"}}}})
	}
	if last := r.Messages[len(r.Messages)-1]; len(r.Messages) != 4 || last.Text() != "done" || errs != 2 {
		t.Errorf("%d messages, the last is %q, %d errors", len(r.Messages), last.Text(), errs)
	}
	if calls := f.Calls(); len(calls) != 4 || calls[3].Results()[0].Text != "contents" {
		t.Errorf("%d calls", len(calls))
	}
}

func TestAccountWithoutCredit(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`))
	})
	_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if segno.KindOf(err) != segno.KindRefused || !strings.Contains(segno.HintOf(err), "credit") || modelrig.IsTransient(err) {
		t.Errorf("it ends with %v, hint %q", err, segno.HintOf(err))
	}
}

// TestSilentStreamTimesOut has a server send the beginning of an answer and then
// nothing, while the connection stays open.
func TestSilentStreamTimesOut(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		events(start, text("hello")[0], text("hello")[1])(w, r)
		<-r.Context().Done()
	})
	said, reply, err := modelrig.Ask(t, s.model(anthropic.Options{IdleTimeout: 20 * time.Millisecond}), modelrig.Hello())
	if !modelrig.IsTransient(err) || !strings.Contains(err.Error(), "sent nothing for too long: 20ms") || reply != nil {
		t.Errorf("it ends with %v, %v", reply, err)
	}
	if !slices.Contains(said, "hello") {
		t.Errorf("it said %q", said)
	}
}

// A server sends without an end. The request ends with an error, and the answer does not fill the memory.
func TestAnEndlessStreamEnds(t *testing.T) {
	const limit = 256 << 20
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		comment := []byte(": " + strings.Repeat("x", 1<<20) + "\n")
		for sent := 0; sent <= limit; sent += len(comment) {
			if _, err := w.Write(comment); err != nil {
				return
			}
		}
		whole("end_turn", text("done")...)(w, r)
	})
	_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if err == nil || modelrig.IsTransient(err) || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%+v, %v", reply, err)
	}
}
