package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
)

// scopeRig is a server with a token for each scope.
type scopeRig struct {
	*Server
	file   string
	tokens map[string]string // by the name of the scope; "" is a request without a token
}

func newScopeRig(t *testing.T) *scopeRig {
	t.Helper()
	rig := &scopeRig{file: filepath.Join(t.TempDir(), "tokens"), tokens: map[string]string{"": "", "unknown": NewToken(), "owner": NewToken()}}
	for i, name := range scopeNames {
		token, err := AddToken(t.Context(), vfs.OS, rig.file, name, 1<<i, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		rig.tokens[name] = token
	}
	tokens, err := OpenTokens(rig.file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(nil)
	rig.Server = New(Config{Store: store, Kind: "memory", Token: rig.tokens["owner"], Tokens: tokens}, l)
	t.Cleanup(func() { l.Close(); store.Close() })
	return rig
}

// status sends a request and returns the status and the body of the response.
func (s *scopeRig) status(method, path, token, body string) (int, string) {
	r := httptest.NewRequest(method, "http://"+s.listener.Addr().String()+apiRoot+path, bytes.NewReader([]byte(body)))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestEveryRouteNeedsItsScope sends a request to each route without a token, with an unknown one, and with one for each
// scope. A request is refused if and only if its token lacks the scope of the route.
func TestEveryRouteNeedsItsScope(t *testing.T) {
	s := newScopeRig(t)
	declared := map[string]bool{}
	for _, e := range routes() {
		route := e.method + " " + e.path
		declared[route] = true
		want := routeScopes[route]
		if want == 0 {
			t.Errorf("%s has no scope in the table", route)
			continue
		}
		if e.path == "/events" { // it does not end
			want = ScopeWrite | ScopeMove | ScopeDecide // no token of the rig has them together
		}
		path := strings.NewReplacer("{id}", "x", "{key}", "x", "{name}", "x", "{hash}", strings.Repeat("a", 64)).Replace(e.path)
		for name, token := range s.tokens {
			if e.path == "/events" && (name == "read" || name == "owner") {
				continue
			}
			status, body := s.status(e.method, path, token, "{}")
			isKnown := name != "" && name != "unknown"
			granted := Scopes(0)
			switch {
			case name == "owner":
				granted = ownerScopes
			case isKnown:
				granted, _ = ParseScopes(name)
			}
			if isRefused := status == http.StatusUnauthorized; isRefused == isKnown {
				t.Errorf("%s with the token %q: %d %s", route, name, status, body)
			}
			isForbidden := strings.Contains(body, "the token does not allow")
			if isKnown && isForbidden != (granted&want != want) && !strings.Contains(body, `allow \"move\"`) {
				t.Errorf("%s needs %s, and the token %q gets %d %s", route, want, name, status, body)
			}
		}
	}
	for route := range routeScopes {
		if !declared[route] {
			t.Errorf("the table has %q, which is not a route", route)
		}
	}
}

// TestTheVerbOfAMoveDecidesItsScope checks that a token for decisions cannot undo or delete.
func TestTheVerbOfAMoveDecidesItsScope(t *testing.T) {
	s := newScopeRig(t)
	for _, x := range []struct {
		token, verb string
		ok          bool
	}{{"decide", "decide", true}, {"decide", "delete", false}, {"decide", "undo", false}, {"decide", "", false}, {"move", "undo", true}, {"owner", "undo", true}, {"owner", "decide", true}} {
		status, body := s.status(http.MethodPost, "/previews", s.tokens[x.token], `{"verb":"`+x.verb+`","thread":"t"}`)
		if isForbidden := status == http.StatusForbidden; isForbidden == x.ok {
			t.Errorf("%s with the token %q: %d %s", x.verb, x.token, status, body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "http://"+s.listener.Addr().String()+apiRoot+"/moves", strings.NewReader(`{"preview":"x"}`))
	r.Header.Set("Authorization", "Bearer "+s.tokens["decide"])
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("the token for decisions repeats a move: %d %s", w.Code, w.Body)
	}
}

// TestTokensChangeWhileTheServerRuns adds and removes a token of a running server.
func TestTokensChangeWhileTheServerRuns(t *testing.T) {
	s := newScopeRig(t)
	token, err := AddToken(t.Context(), vfs.OS, s.file, "late", ScopeRead, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, body := s.status(http.MethodGet, "/threads", token, ""); status != http.StatusOK {
		t.Errorf("a new token gets %d %s", status, body)
	}
	if err := RemoveToken(t.Context(), vfs.OS, s.file, "late"); err != nil {
		t.Fatal(err)
	}
	if status, body := s.status(http.MethodGet, "/threads", token, ""); status != http.StatusUnauthorized {
		t.Errorf("a removed token gets %d %s", status, body)
	}
	if err := os.WriteFile(s.file, []byte("x y z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, body := s.status(http.MethodGet, "/threads", s.tokens["read"], ""); status < 400 {
		t.Errorf("with a damaged file a token gets %d %s", status, body)
	}
	if status, body := s.status(http.MethodGet, "/threads", "unknown", ""); status < 400 || strings.Contains(body, s.file) {
		t.Errorf("with a damaged file an unknown token gets %d %s", status, body)
	}
	if status, body := s.status(http.MethodGet, "/threads", s.tokens["owner"], ""); status != http.StatusOK {
		t.Errorf("with a damaged file the token of the server gets %d %s", status, body)
	}
}

func TestTheFileOfTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if _, err := OpenTokens(path); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("a missing file: %v", err)
	}
	sum := strings.Repeat("0a", 32)
	for text, ok := range map[string]bool{
		"":                     true,
		"# comment\n\n  \n":    true,
		"ci read,write " + sum: true,
		"ci read " + sum + " 2026-01-02T03:04:05Z\n": true,
		"ci read":                             false,
		"ci all " + sum:                       false,
		"ci read " + sum + "00":               false,
		"ci read " + sum[2:]:                  false,
		"ci read " + strings.Repeat("zz", 32): false,
		"ci read " + sum + " yesterday":       false,
		"c/i read " + sum:                     false,
		"ci read " + sum + "\nci read " + sum: false,
		strings.Repeat("#", maxTokens+1):      false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenTokens(path)
		if ok != (err == nil) || !ok && segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	if err := os.WriteFile(path, []byte("# mine\nci read "+sum), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := AddToken(t.Context(), vfs.OS, path, "laptop", ScopeRead|ScopeWrite, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "# mine\nci read "+sum+"\nlaptop read,write ") || strings.Contains(string(text), token) {
		t.Errorf("the file is %q, %v", text, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", fi.Mode(), err)
	}
	if _, err := AddToken(t.Context(), vfs.OS, path, "ci", ScopeRead, time.Now()); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("the same name again: %v", err)
	}
	if err := RemoveToken(t.Context(), vfs.OS, path, "none"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("the removal of another name: %v", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokens(path); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("a file that others can write: %v", err)
	}
}

// TestCommandsChangeTokensAtOnce adds and removes tokens from several commands at once. No token may be lost, and none may stay.
func TestCommandsChangeTokensAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	const commands = 8
	for i := range commands {
		if _, err := AddToken(t.Context(), vfs.OS, path, fmt.Sprint("old", i), ScopeRead, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for i := range commands {
		group.Go(func() {
			if _, err := AddToken(t.Context(), vfs.OS, path, fmt.Sprint("new", i), ScopeRead, time.Now()); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if err := RemoveToken(t.Context(), vfs.OS, path, fmt.Sprint("old", i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range tokens.List() {
		names = append(names, g.Name)
	}
	slices.Sort(names)
	if got, want := strings.Join(names, " "), "new0 new1 new2 new3 new4 new5 new6 new7"; got != want {
		t.Errorf("the file has the tokens %s, want %s", got, want)
	}
}

// TestACommandWaitsForAnother ends a command while another one changes the file. It must have changed nothing.
func TestACommandWaitsForAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	unlock, err := lockTokens(t.Context(), vfs.OS, path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := AddToken(ctx, vfs.OS, path, "late", ScopeRead, time.Now()); segno.KindOf(err) != segno.KindCancelled {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was changed: %v", err)
	}
}

// TestAStreamEndsWithItsToken removes a token while a stream of it is open. The stream ends before the next event.
func TestAStreamEndsWithItsToken(t *testing.T) {
	s := newScopeRig(t)
	server := &http.Server{Handler: s}
	go server.Serve(s.listener) //nolint:errcheck // it returns when the test closes it
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+apiRoot+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.tokens["read"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	commit := func(thread segno.ThreadID) {
		t.Helper()
		if _, err := s.Store.Commit(t.Context(), segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Create: &segno.Thread{ID: thread}}); err != nil {
			t.Fatal(err)
		}
	}
	next := func() (event string) {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data: ") {
				return lines.Text()
			}
		}
		return ""
	}
	if got := next(); !strings.Contains(got, "version") {
		t.Fatalf("the stream begins with %q", got)
	}
	commit("before")
	if got := next(); !strings.Contains(got, "before") {
		t.Fatalf("with the token the stream has %q", got)
	}
	if err := RemoveToken(t.Context(), vfs.OS, s.file, "read"); err != nil {
		t.Fatal(err)
	}
	commit("after")
	for got := next(); got != ""; got = next() { // a second event about the thread before can be on its way
		if strings.Contains(got, "after") {
			t.Fatalf("without the token the stream has %q", got)
		}
	}
}
