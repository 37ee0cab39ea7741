package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/openai"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

func TestWholeDocumentIsAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want string
		stop agent.Stop
	}{
		"text": {`{"id":"x","object":"chat.completion","error":null,"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":60,"completion_tokens":7}}`, "~[]hello", agent.StopEnd},
		"calls": {"{\n\"choices\":[{\"message\":{\"reasoning_content\":\"hm\",\"tool_calls\":[" +
			`{"id":"","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"","type":"function","function":{"name":"ls","arguments":{"x":12345678901234567890}}}` +
			"]}}]}", "~hm[ls {} ls {\"x\":12345678901234567890}]", agent.StopTools},
		"length": {`{"choices":[{"message":{"content":"hel"},"finish_reason":"length"}]}`, "~[]hel", agent.StopLength},
	} {
		s := newServer(t, modelrig.Document(c.body))
		_, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var thought string
		var calls []string
		for _, p := range reply.Message.Parts {
			switch {
			case p.Thinking != nil:
				thought = p.Thinking.Text
			case p.Call != nil:
				calls = append(calls, p.Call.Name+" "+string(p.Call.Args))
			}
		}
		got := fmt.Sprintf("~%s%v%s", thought, calls, reply.Message.Text())
		if got != c.want || reply.Stop != c.stop || name == "text" && reply.Usage != (agent.Usage{Input: 60, Output: 7}) {
			t.Errorf("%s: %s, stop %s, %+v, want %s", name, got, reply.Stop, reply.Usage, c.want)
		}
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
		"error":         {modelrig.Document(`{"error":{"message":"model qwen9 not found","type":"api_error"}}`), "model qwen9 not found", agent.ModelError{}, segno.KindInvalid},
		"error, listed": {modelrig.Document(`[{"error":{"message":"model qwen9 not found","code":404}}]`), "model qwen9 not found", agent.ModelError{Status: 404}, segno.KindInternal},
		"busy":          {modelrig.Document(`{"error":{"message":"slow down","type":"rate_limit_error"}}`), "slow down", agent.ModelError{Status: 429, Retry: true}, segno.KindInternal},
		"no key":        {modelrig.Document(`{"error":{"message":"who?","code":"401"}}`), "the server rejected the key", agent.ModelError{Status: 401}, segno.KindRefused},
		"something":     {modelrig.Document(`{"model":"x","response":"hi"}` + "\n" + `{"done":true}`), `not an answer of this API: {"model"`, agent.ModelError{}, segno.KindInvalid},
		"cut":           {modelrig.Document(`{"choices":[{"message":{"con`), "truncated", agent.ModelError{Retry: true}, segno.KindInternal},
		"a page":        {modelrig.Document(page), "answered with an HTML page, not with the API", agent.ModelError{}, segno.KindInvalid},
		"called a stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "\n"+page)
		}, "answered with an HTML page, not with the API", agent.ModelError{}, segno.KindInvalid},
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
		fmt.Fprintf(w, "\n: processing\n\ndata: %s\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", delta(ok))
	})
	if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); err != nil || reply.Message.Text() != "ok" {
		t.Errorf("%v, %v", reply, err)
	}
}

func TestKeyIsSentToTrustedHostsOnly(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-environment-key")
	t.Setenv("OPENAI_ORG_ID", "org-environment")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Token: environment-token")
	s := newServer(t, whole("stop", ok))
	own := s.Redirect()
	for name, c := range map[string]struct {
		env  string
		opts openai.Options
		key  string
		more bool
	}{
		"OpenAI":                {"", openai.Options{HTTPClient: own}, "sk-environment-key", true},
		"OpenAI in code":        {"", openai.Options{HTTPClient: own, BaseURL: "https://eu.api.openai.com/v1"}, "sk-environment-key", true},
		"environment":           {s.URL, openai.Options{HTTPClient: s.Client()}, "sk-environment-key", true},
		"the same in code":      {s.URL, openai.Options{HTTPClient: s.Client(), BaseURL: s.URL}, "sk-environment-key", true},
		"another in code":       {"", openai.Options{HTTPClient: s.Client(), BaseURL: s.URL}, "none", false},
		"another, with its key": {"", openai.Options{HTTPClient: s.Client(), BaseURL: s.URL, Key: "its-own"}, "its-own", false},
	} {
		t.Setenv("OPENAI_BASE_URL", c.env)
		if _, _, err := modelrig.Ask(t, openai.New("m", c.opts), modelrig.Hello()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := s.LastHeader()
		if got := h.Get("Authorization"); got != "Bearer "+c.key {
			t.Errorf("%s: the key was %q", name, got)
		}
		if told := h.Get("OpenAI-Organization") != "" || h.Get("X-Token") != ""; told != c.more {
			t.Errorf("%s: the environment was told: %v", name, told)
		}
	}
}

func TestErrorsContainNoSecret(t *testing.T) {
	said := "bad key secret-key, or sk-proj-0123456789_abc, or sk-ab***********xyz"
	for name, answer := range map[string]http.HandlerFunc{
		"status":   fails(400, `{"error":{"message":"`+said+`"}}`),
		"refused":  fails(403, `{"error":{"message":"`+said+`"}}`),
		"a page":   fails(502, "<html>"+said),
		"midst":    events(delta(ok), `{"error":{"message":"`+said+`","type":"server_error"}}`),
		"no event": modelrig.Document(`{"error":"` + said + `"}`),
		"garbage":  events(`{"choices":[` + said),
	} {
		s := newServer(t, answer)
		_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
		if err == nil || strings.Contains(err.Error(), "secret-key") || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%s: it says %q", name, err)
		}
	}
}

func TestServerErrorIsOneLine(t *testing.T) {
	s := newServer(t, fails(500, "<html>\n"+strings.Repeat("<p>long</p>\n", 500)))
	_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	if text := err.Error(); strings.Contains(text, "\n") || len([]rune(text)) > 300+len("status 500: ") || !strings.HasSuffix(text, "…") {
		t.Errorf("it says %q", text)
	}
}

func TestInvalidAddress(t *testing.T) {
	for _, address := range []string{"nonsense", "localhost:11434/v1", "ftp://example.com", "http://", "http://[::1", "unix:///run/x.sock"} {
		_, _, err := modelrig.Ask(t, openai.New("m", openai.Options{Key: "k", BaseURL: address}), modelrig.Hello())
		var me *agent.ModelError
		if !errors.As(err, &me) || me.Retry || segno.KindOf(err) != segno.KindInvalid || !strings.Contains(err.Error(), "base URL") || !strings.Contains(segno.HintOf(err), "set Options.BaseURL to") {
			t.Errorf("%s: %v", address, err)
		}
	}
	t.Setenv("OPENAI_BASE_URL", "nonsense")
	_, _, err := modelrig.Ask(t, openai.New("m", openai.Options{Key: "k"}), modelrig.Hello())
	if segno.KindOf(err) != segno.KindInvalid || !strings.Contains(segno.HintOf(err), "set OPENAI_BASE_URL to") {
		t.Errorf("of the environment: %v", err)
	}
}

func TestTheQueryOfAnAddressIsKept(t *testing.T) {
	var paths []string
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.String())
		whole("stop", ok)(w, r)
	})
	for base, want := range map[string]string{
		"/openai/v1":                      "/openai/v1/chat/completions",
		"/openai/v1/":                     "/openai/v1/chat/completions",
		"/v1?api-version=preview&x=1%202": "/v1/chat/completions?api-version=preview&x=1+2",
	} {
		if _, _, err := modelrig.Ask(t, openai.New("m", openai.Options{BaseURL: s.URL + base, HTTPClient: s.Client()}), modelrig.Hello()); err != nil {
			t.Fatal(err)
		}
		if got := paths[len(paths)-1]; got != want {
			t.Errorf("%s was asked at %s", base, got)
		}
	}
}

func TestConnectionErrorNamesHostOnce(t *testing.T) {
	s := newServer(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	m := openai.New("m", openai.Options{BaseURL: s.URL + "/v1?api-key=secret-in-query", HTTPClient: s.Client()})
	_, _, err := modelrig.Ask(t, m, modelrig.Hello())
	if !modelrig.IsTransient(err) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), m.Name()) || !strings.Contains(err.Error(), strings.TrimPrefix(s.URL, "http://")) {
		t.Errorf("%v", err)
	}
	secure := openai.New("m", openai.Options{BaseURL: "https" + strings.TrimPrefix(s.URL, "http"), HTTPClient: s.Client()})
	if _, _, err := modelrig.Ask(t, secure, modelrig.Hello()); modelrig.IsTransient(err) || segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("https where there is none: %v", err)
	}
}

func TestEmptyAnswerIsTransient(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"nothing":       whole("stop"),
		"a space":       whole("stop", `{"content":"\n\n"}`),
		"thoughts only": whole("stop", `{"reasoning":"hm"}`),
		"no calls":      whole("tool_calls", `{"content":"I call"}`),
		"in one piece":  modelrig.Document(`{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}`),
	} {
		s := newServer(t, answer)
		if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); !modelrig.IsTransient(err) {
			t.Errorf("%s: %+v, %v", name, reply, err)
		}
	}
	for finish, want := range map[string]agent.Stop{"length": agent.StopLength, "content_filter": agent.StopRefusal} {
		s := newServer(t, whole(finish))
		if _, reply, err := modelrig.Ask(t, s.model(), modelrig.Hello()); err != nil || reply.Stop != want {
			t.Errorf("%s: %+v, %v", finish, reply, err)
		}
	}
}

// TestEmptyAnswerAfterResultsIsValid has a model return an empty answer after the results of its
// calls, as a model does when its work is done.
func TestEmptyAnswerAfterResultsIsValid(t *testing.T) {
	s := newServer(t, whole("stop"))
	r := agent.Request{Messages: []agent.Message{agent.Text("hello"),
		{Role: agent.Assistant, Parts: []agent.Part{{Call: &agent.Call{ID: "1", Name: "ls", Args: json.RawMessage(`{}`)}}}},
		{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{Call: "1", Name: "ls", Text: "a"}}}}}}
	if _, reply, err := modelrig.Ask(t, s.model(), r); err != nil || reply.Stop != agent.StopEnd || reply.Message.Text() != "" {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestBlankConversationIsNotSent(t *testing.T) {
	s := newServer(t, whole("stop", ok))
	_, _, err := modelrig.Ask(t, s.model(), agent.Request{System: "be brief", Messages: []agent.Message{agent.Text(" ")}})
	if segno.KindOf(err) != segno.KindInvalid || len(s.Requests()) > 0 {
		t.Errorf("%v, %d requests", err, len(s.Requests()))
	}
}
