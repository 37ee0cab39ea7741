package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
)

// TestRedirect checks that no request follows a server to another address: it would take the token and the body along.
func TestRedirect(t *testing.T) {
	var received atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	s, err := client.New(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	calls := map[string]func() error{
		"read":   func() error { _, err := s.Head(t.Context(), "t"); return err },
		"find":   func() error { _, err := s.Objects().Has(t.Context(), segno.Hash{1}); return err },
		"commit": func() error { _, err := s.Commit(t.Context(), segno.Commit{ID: "c", Thread: "t"}); return err },
		"send":   func() error { _, err := s.Send(t.Context(), "t", "key", client.SendPrompt{Text: "secret"}); return err },
	}
	for what, call := range calls {
		if err := call(); segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
			t.Errorf("%s: a redirect is %v", what, err)
		}
	}
	if n := received.Load(); n > 0 {
		t.Errorf("the other address received %d requests", n)
	}
}
