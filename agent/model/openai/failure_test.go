package openai_test

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
	"github.com/dalsegno/segno/agent/model/openai"
	"github.com/dalsegno/segno/internal/testing/modelrig"
)

// fails answers with an error.
func fails(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// scripted returns an error in OpenAI's format.
func scripted(kind string) string {
	return `{"error":{"message":"as\n scripted","type":"` + kind + `","param":null,"code":"` + kind + `"}}`
}

func TestErrorsTellWhetherToRetry(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   agent.ModelError
		kind   segno.Kind
	}{
		"bad request":     {fails(400, scripted("invalid_request_error")), agent.ModelError{Status: 400}, segno.KindInternal},
		"not allowed":     {fails(403, scripted("forbidden")), agent.ModelError{Status: 403}, segno.KindRefused},
		"no model":        {fails(404, `{"error":"as scripted"}`), agent.ModelError{Status: 404}, segno.KindInternal},
		"too many":        {fails(429, scripted("rate_limit_exceeded"), "Retry-After", "7"), agent.ModelError{Status: 429, Retry: true, After: 7 * time.Second}, segno.KindInternal},
		"in ms":           {fails(429, scripted("tokens"), "Retry-After-Ms", "1500"), agent.ModelError{Status: 429, Retry: true, After: 1500 * time.Millisecond}, segno.KindInternal},
		"no money":        {fails(429, scripted("insufficient_quota")), agent.ModelError{Status: 429}, segno.KindRefused},
		"server":          {fails(500, `{"detail":"as scripted"}`), agent.ModelError{Status: 500, Retry: true}, segno.KindInternal},
		"loading":         {fails(503, `{"error":{"code":503,"message":"as scripted","type":"unavailable_error"}}`), agent.ModelError{Status: 503, Retry: true}, segno.KindInternal},
		"not even JSON":   {fails(502, "<html>as scripted"), agent.ModelError{Status: 502, Retry: true}, segno.KindInternal},
		"in its midst":    {events(delta(ok), `{"error":{"message":"as scripted","type":"server_error"}}`), agent.ModelError{Status: 500, Retry: true}, segno.KindInternal},
		"midst, no money": {events(delta(ok), scripted("insufficient_quota")), agent.ModelError{Status: 429}, segno.KindRefused},
		"midst, too long": {events(delta(ok), `{"error":{"message":"as scripted","type":"BadRequestError","code":400}}`), agent.ModelError{Status: 400}, segno.KindInternal},
		"midst, limit":    {events(delta(ok), `{"error":{"message":"as scripted","type":"invalid_request_error","code":"context_length_exceeded"}}`), agent.ModelError{Status: 400}, segno.KindInternal},
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
		if !strings.Contains(err.Error(), "as scripted") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: it says %q", name, err)
		}
		if noMoney := strings.Contains(name, "no money"); strings.Contains(segno.HintOf(err), "credit") != noMoney {
			t.Errorf("%s: the hint is %q", name, segno.HintOf(err))
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
	}
}

func TestRejectedKeyIsNotRepeated(t *testing.T) {
	s := newServer(t, fails(401, `{"error":{"message":"Incorrect API key provided: secret-key","type":"invalid_request_error","code":"invalid_api_key"}}`))
	_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	var me *agent.ModelError
	if !errors.As(err, &me) || me.Retry || me.Status != 401 || segno.KindOf(err) != segno.KindRefused || strings.Contains(err.Error(), "secret-key") {
		t.Errorf("%v", err)
	}
}

func TestRetryAfterDate(t *testing.T) {
	s := newServer(t, fails(503, scripted("server_error"), "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)))
	_, _, err := modelrig.Ask(t, s.model(), modelrig.Hello())
	var me *agent.ModelError
	if !errors.As(err, &me) || me.After < 50*time.Minute || me.After > time.Hour {
		t.Errorf("%+v", me)
	}
}

func TestTruncatedAnswerIsTransient(t *testing.T) {
	begun := []string{delta(`{"content":"half an ans"}`)}
	for name, answer := range map[string]http.HandlerFunc{
		"the connection breaks": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			panic(http.ErrAbortHandler)
		},
		"it ends too early":       events(begun...),
		"it says nothing":         events(),
		"before it says anything": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it is not JSON": func(w http.ResponseWriter, r *http.Request) {
			events(begun...)(w, r)
			_, _ = w.Write([]byte("data: {\"id\n\n"))
		},
		"it does not say why it ends": events(delta(ok), "[DONE]"),
		"it is nonsense":              events("nonsense"),
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
	t.Setenv("OPENAI_BASE_URL", s.URL)
	t.Setenv("OPENAI_API_KEY", "of the environment")
	for want, o := range map[string]openai.Options{
		"set Options.Key to":    {Key: "of the program", HTTPClient: s.Client()},
		"set OPENAI_API_KEY to": {HTTPClient: s.Client()},
	} {
		_, _, err := modelrig.Ask(t, openai.New("m", o), modelrig.Hello())
		if hint := segno.HintOf(err); !strings.HasPrefix(hint, want) {
			t.Errorf("hint %q, want %q", hint, want)
		}
	}
}

func TestUnreachableServer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, _, err := modelrig.Ask(t, openai.New("m", openai.Options{Key: "k", BaseURL: gone.URL}), modelrig.Hello())
	if !modelrig.IsTransient(err) {
		t.Errorf("%v", err)
	}
}

func TestMissingKeyIsPermanent(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_BASE_URL", "")
	_, _, err := modelrig.Ask(t, openai.New("m", openai.Options{}), modelrig.Hello())
	var me *agent.ModelError
	if !errors.As(err, &me) || me.Retry || segno.KindOf(err) != segno.KindRefused || !strings.Contains(segno.HintOf(err), "OPENAI_API_KEY") {
		t.Errorf("%v", err)
	}
}

func TestContextEndsAnswer(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		events(delta(`{"content":"half"}`))(w, r)
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
		events(delta(`{"content":"half"}`))(w, r)
		<-r.Context().Done()
		close(gone)
	})
	for range s.model().Generate(t.Context(), modelrig.Hello()) {
		break
	}
	<-gone
}

// TestSilentStreamTimesOut has a server send the beginning of an answer and then
// nothing, while the connection stays open.
func TestSilentStreamTimesOut(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		events(delta(`{"role":"assistant","content":"hello"}`))(w, r)
		<-r.Context().Done()
	})
	said, reply, err := modelrig.Ask(t, s.model(openai.Options{IdleTimeout: 20 * time.Millisecond}), modelrig.Hello())
	if !modelrig.IsTransient(err) || !strings.Contains(err.Error(), "sent nothing for too long: 20ms") || reply != nil {
		t.Errorf("it ends with %v, %v", reply, err)
	}
	if !slices.Contains(said, "hello") {
		t.Errorf("it said %q", said)
	}
}

// The environment may name a header with a key, as Azure's servers expect one. If the server repeats the key in an error, the
// error of the model does not show it.
func TestSecretsInCustomHeadersAreNotShown(t *testing.T) {
	for _, name := range []string{"api-key", "X-Auth-Token", "X-Client-Secret", "Ocp-Apim-Subscription-Key", "Cookie"} {
		s := newServer(t, fails(400, `{"error":{"message":"bad request with hunter2hunter2"}}`))
		t.Setenv("OPENAI_BASE_URL", s.URL)
		t.Setenv("OPENAI_CUSTOM_HEADERS", name+": hunter2hunter2")
		_, _, err := modelrig.Ask(t, openai.New("m", openai.Options{HTTPClient: s.Client()}), modelrig.Hello())
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "bad request") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
