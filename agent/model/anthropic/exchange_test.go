package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/anthropic"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestWholeDocumentIsAccepted(t *testing.T) {
	s := newServer(t, modelrig.Document(`{"id":"m","type":"message","role":"assistant","model":"claude-test","content":[
		{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hello"},
		{"type":"tool_use","id":"a","name":"ls","input":{"x": 12345678901234567890}}],
		"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":30,"output_tokens":7}}`))
	pieces, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if err != nil {
		t.Fatal(err)
	}
	m := reply.Message
	if strings.Join(pieces, "|") != "~hm|hello" || m.Text() != "hello" || len(m.Parts) != 3 || reply.Stop != agent.StopTools || reply.Usage != (agent.Usage{Input: 40, Output: 7, CacheRead: 30}) {
		t.Errorf("%q, %+v", pieces, reply)
	}
	modelrig.SameJSON(t, string(m.Parts[0].Thinking.Data), `{"type":"thinking","thinking":"hm","signature":"s"}`)
	if args := string(m.Calls()[0].Args); !strings.Contains(args, "12345678901234567890") {
		t.Errorf("the arguments are %s", args)
	}
}

func TestNonStreamAnswersHaveReasons(t *testing.T) {
	page := "<!DOCTYPE html>\n<html>log in</html>"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
		want   agent.ModelError
		kind   segno.Kind
	}{
		"error":     {modelrig.Document(`{"error":{"message":"model qwen9 not found","type":"api_error"}}`), "model qwen9 not found", agent.ModelError{}, segno.KindInvalid},
		"its own":   {modelrig.Document(`{"type":"error","error":{"type":"not_found_error","message":"model: qwen9"}}`), "model: qwen9", agent.ModelError{Status: 404}, segno.KindInternal},
		"busy":      {modelrig.Document(`{"type":"error","error":{"type":"overloaded_error","message":"slow down"}}`), "slow down", agent.ModelError{Status: 529, Retry: true}, segno.KindInternal},
		"no key":    {modelrig.Document(`{"type":"error","error":{"type":"authentication_error","message":"who?"}}`), "who?", agent.ModelError{Status: 401}, segno.KindRefused},
		"something": {modelrig.Document(`{"choices":[{"message":{"content":"hi"}}]}`), `not an answer of this API: {"choices"`, agent.ModelError{}, segno.KindInvalid},
		"cut":       {modelrig.Document(`{"type":"message","content":[`), "truncated", agent.ModelError{Retry: true}, segno.KindInternal},
		"a page":    {modelrig.Document(page), "answered with an HTML page, not with the API", agent.ModelError{}, segno.KindInvalid},
		"called a stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "\n"+page)
		}, "answered with an HTML page, not with the API", agent.ModelError{}, segno.KindInvalid},
		"a page of an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			fmt.Fprint(w, page)
		}, "log in", agent.ModelError{Status: 502, Retry: true}, segno.KindInternal},
	} {
		s := newServer(t, c.answer)
		_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
		var me *agent.ModelError
		if !errors.As(err, &me) || reply != nil {
			t.Fatalf("%s: %v, %v", name, reply, err)
		}
		if got := (agent.ModelError{Status: me.Status, Retry: me.Retry}); got != c.want || segno.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v of kind %v, saying %q", name, got, segno.KindOf(err), err)
		}
	}
}

func TestAStreamOfAnotherNameIsRead(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "\n: processing\n\n")
		for _, e := range append(append([]string{start}, text("ok")...), end("end_turn")...) {
			send(w, e)
		}
	})
	if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); err != nil || reply.Message.Text() != "ok" {
		t.Errorf("%v, %v", reply, err)
	}
}

func TestKeyIsSentToTrustedHostsOnly(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "environment-token")
	s := newServer(t, whole("end_turn", text("ok")...))
	own, here := s.Redirect(), s.Client()
	for name, c := range map[string]struct {
		env  string
		opts anthropic.Options
		want string // key and token
	}{
		"Anthropic":             {"", anthropic.Options{HTTPClient: own}, " Bearer environment-token"},
		"Anthropic in code":     {"", anthropic.Options{HTTPClient: own, BaseURL: "https://api.anthropic.com/"}, " Bearer environment-token"},
		"Anthropic, another":    {"", anthropic.Options{HTTPClient: own, Key: "mine"}, "mine "},
		"environment":           {s.URL, anthropic.Options{HTTPClient: here}, " Bearer environment-token"},
		"the same in code":      {s.URL, anthropic.Options{HTTPClient: here, BaseURL: s.URL}, " Bearer environment-token"},
		"another, with its key": {"", anthropic.Options{HTTPClient: here, BaseURL: s.URL, Key: "its-own"}, "its-own "},
	} {
		t.Setenv("ANTHROPIC_BASE_URL", c.env)
		if _, _, err := modelrig.Ask(t, anthropic.New("m", c.opts), modelrig.Hello()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := s.LastHeader()
		if got := h.Get("X-Api-Key") + " " + h.Get("Authorization"); got != c.want {
			t.Errorf("%s: the key was %q, want %q", name, got, c.want)
		}
	}
	t.Setenv("ANTHROPIC_BASE_URL", "")
	n := len(s.Requests())
	_, _, err := modelrig.Ask(t, anthropic.New("m", anthropic.Options{HTTPClient: here, BaseURL: s.URL}), modelrig.Hello())
	if segno.KindOf(err) != segno.KindRefused || !strings.Contains(segno.HintOf(err), "Options.Key") || len(s.Requests()) > n {
		t.Errorf("another in code, without its key: %v", err)
	}
}

func TestKeyIsNotRedirected(t *testing.T) {
	other := newServer(t, whole("end_turn", text("ok")...))
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if err == nil || modelrig.IsTransient(err) || len(other.Requests()) > 0 {
		t.Errorf("%v, %d requests elsewhere", err, len(other.Requests()))
	}
}

func TestErrorsContainNoSecret(t *testing.T) {
	said := "bad key secret-key, or sk-ant-0123456789_abc, or sk-ab***********xyz"
	failing := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"no key":   failing(401, `{"type":"error","error":{"type":"authentication_error","message":"`+said+`"}}`),
		"status":   failing(400, `{"error":"`+said+`"}`),
		"a page":   failing(502, "<html>"+said),
		"midst":    events(start, `{"type":"error","error":{"type":"api_error","message":"`+said+`"}}`),
		"no event": modelrig.Document(`{"error":"` + said + `"}`),
		"nonsense": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "event: error\ndata: "+said+"\n\n")
		},
	} {
		s := newServer(t, answer)
		_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
		if err == nil || strings.Contains(err.Error(), "secret-key") || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%s: it says %q", name, err)
		}
	}
}

func TestServerErrorIsOneLine(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		fmt.Fprint(w, "<html>\n"+strings.Repeat("<p>long</p>\n", 500))
	})
	_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if text := err.Error(); strings.Contains(text, "\n") || len([]rune(text)) > 300+len("status 500: ") || !strings.HasSuffix(text, "…") {
		t.Errorf("it says %q", text)
	}
}

func TestInvalidAddress(t *testing.T) {
	for _, address := range []string{"nonsense", "localhost:11434/v1", "ftp://example.com", "http://", "http://[::1", "unix:///run/x.sock"} {
		_, _, err := modelrig.Ask(t, anthropic.New("m", anthropic.Options{Key: "k", BaseURL: address}), modelrig.Hello())
		var me *agent.ModelError
		if !errors.As(err, &me) || me.Retry || segno.KindOf(err) != segno.KindInvalid || !strings.Contains(err.Error(), "base URL") || !strings.Contains(segno.HintOf(err), "set Options.BaseURL to") {
			t.Errorf("%s: %v", address, err)
		}
	}
	t.Setenv("ANTHROPIC_BASE_URL", "nonsense")
	_, _, err := modelrig.Ask(t, anthropic.New("m", anthropic.Options{Key: "k"}), modelrig.Hello())
	if segno.KindOf(err) != segno.KindInvalid || !strings.Contains(segno.HintOf(err), "set ANTHROPIC_BASE_URL to") {
		t.Errorf("of the environment: %v", err)
	}
}

func TestTheQueryOfAnAddressIsKept(t *testing.T) {
	var paths []string
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.String())
		whole("end_turn", text("ok")...)(w, r)
	})
	for base, want := range map[string]string{
		"":                                   "/v1/messages",
		"/proxy/anthropic":                   "/proxy/anthropic/v1/messages",
		"/proxy?api-version=preview&x=1%202": "/proxy/v1/messages?api-version=preview&x=1+2",
	} {
		if _, _, err := modelrig.Ask(t, anthropic.New("m", anthropic.Options{Key: "k", BaseURL: s.URL + base, HTTPClient: s.Client()}), modelrig.Hello()); err != nil {
			t.Fatal(err)
		}
		if got := paths[len(paths)-1]; got != want {
			t.Errorf("%s was asked at %s", base, got)
		}
	}
}

func TestConnectionErrorNamesHostOnce(t *testing.T) {
	s := newServer(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	m := anthropic.New("m", anthropic.Options{Key: "k", BaseURL: s.URL + "/v1?api-key=secret-in-query", HTTPClient: s.Client()})
	_, _, err := modelrig.Ask(t, m, modelrig.Hello())
	if !modelrig.IsTransient(err) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), m.Name()) || !strings.Contains(err.Error(), strings.TrimPrefix(s.URL, "http://")) {
		t.Errorf("%v", err)
	}
	secure := anthropic.New("m", anthropic.Options{Key: "k", BaseURL: "https" + strings.TrimPrefix(s.URL, "http"), HTTPClient: s.Client()})
	if _, _, err := modelrig.Ask(t, secure, modelrig.Hello()); modelrig.IsTransient(err) || segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("https where there is none: %v", err)
	}
}

func TestEmptyAnswerIsTransient(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"nothing": whole("end_turn"),
		"a space": whole("end_turn", text(`\n\n`)...),
		"thoughts only": whole("end_turn",
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm","signature":"s"}}`,
			`{"type":"content_block_stop","index":0}`),
		"no calls": whole("tool_use", text("I call")...),
	} {
		s := newServer(t, answer)
		if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); !modelrig.IsTransient(err) {
			t.Errorf("%s: %+v, %v", name, reply, err)
		}
	}
	for reason, want := range map[string]agent.Stop{"max_tokens": agent.StopLength, "refusal": agent.StopRefusal} {
		s := newServer(t, whole(reason))
		if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); err != nil || reply.Stop != want {
			t.Errorf("%s: %+v, %v", reason, reply, err)
		}
	}
}

// TestEmptyAnswerAfterResultsIsValid has a model return an empty answer after the results of its
// calls, as a model does when its work is done.
func TestEmptyAnswerAfterResultsIsValid(t *testing.T) {
	s := newServer(t, whole("end_turn"))
	r := agent.Request{Messages: []agent.Message{agent.Text("hello"),
		{Role: agent.Assistant, Parts: []agent.Part{{Call: &agent.Call{ID: "1", Name: "ls", Args: json.RawMessage(`{}`)}}}},
		{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "1", Name: "ls", Text: "a"}}}}}}
	if _, reply, err := modelrig.Ask(t, s.model(), r); err != nil || reply.Stop != agent.StopEnd || reply.Message.Text() != "" {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestBlankConversationIsNotSent(t *testing.T) {
	s := newServer(t, whole("end_turn", text("ok")...))
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{System: "be brief", Messages: []agent.Message{agent.Text(" ")}})
	if segno.KindOf(err) != segno.KindInvalid || len(s.Requests()) > 0 {
		t.Errorf("%v, %d requests", err, len(s.Requests()))
	}
}
