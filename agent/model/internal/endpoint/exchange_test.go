package endpoint

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestEventsAreRead(t *testing.T) {
	for body, want := range map[string]string{
		"data: a\n\ndata: b\n\n":                          "[ a][ b]",
		"event: x\r\ndata:a\r\ndata:  b\r\n\r\n":          "[x a\n b]",
		": ping\n\nid: 1\nevent: x\n\ndata: y\n\n":        "[ y]", // an event without data does not count
		"data: a\n\ndata: cut":                            "[ a]",
		"data\ndata: b\n\n":                               "[ \nb]",
		"data: " + strings.Repeat("x", 1<<14) + "\n\n":    "[ " + strings.Repeat("x", 1<<14) + "]",
		"\n\n\nevent: error\ndata: {\"a\": \"b: c\"}\n\n": `[error {"a": "b: c"}]`,
	} {
		var got strings.Builder
		for e, err := range readEvents(iotest.OneByteReader(strings.NewReader(body))) {
			if err != nil {
				t.Fatalf("%.60q: %v", body, err)
			}
			fmt.Fprintf(&got, "[%s %s]", e.Type, e.Data)
		}
		if got.String() != want {
			t.Errorf("%.60q has %.60q, want %.60q", body, got.String(), want)
		}
	}
}

func TestTheErrorOfAStreamEndsItsEvents(t *testing.T) {
	broken := errors.New("broken")
	var got []error
	for _, err := range readEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))) {
		got = append(got, err)
	}
	if len(got) != 2 || got[0] != nil || !errors.Is(got[1], broken) {
		t.Errorf("%v", got)
	}
}

func TestAnOddFieldSpoilsNothing(t *testing.T) {
	var v struct {
		A string
		B int
		C []struct{ D string }
	}
	if err := Decode([]byte(`{"a":{"x":1},"b":7,"c":[{"d":3},{"d":"e"}]}`), &v); err != nil || v.B != 7 || len(v.C) != 2 || v.C[1].D != "e" {
		t.Errorf("%+v, %v", v, err)
	}
	for _, bad := range []string{`[]`, `"a"`, `{"a":`, ``} {
		if Decode([]byte(bad), &v) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestARefusalWithoutAnEndIsRead uses a server that sends the beginning of a refusal and then nothing.
func TestARefusalWithoutAnEndIsRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer server.Close()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{client: server.Client(), idle: time.Millisecond, answer: refuser{}}
	for _, err := range x.events(t.Context(), to, http.Header{}, "question") {
		if refused := (*StatusError)(nil); !errors.As(err, &refused) || refused.Status != http.StatusBadGateway {
			t.Errorf("%v", err)
		}
	}
}

type refuser struct{ Answer }

func (refuser) Refusal(_ []byte, status int) *StatusError { return &StatusError{Status: status} }
