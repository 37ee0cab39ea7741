package fleetcmd

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/web/wire"
)

// sendTo runs 'segno send' to a server, without a key, and returns the exit code and the output.
func sendTo(t *testing.T, server *httptest.Server, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runOn(t, server, append([]string{"send", "--thread", "t", "--agent", "a", "-p", "text"}, args...)...)
}

// runOn runs the command with a server.
func runOn(t *testing.T, server *httptest.Server, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Main(t.Context(), cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: func() []string { return nil },
		Getenv: func(name string) string {
			return map[string]string{"SEGNO_TOKEN": "token", "HOME": t.TempDir(), "NO_COLOR": "1"}[name]
		},
		Getwd: func() (string, error) { return t.TempDir(), nil }, Executable: os.Executable}, []cli.Wing{Wing(nil)},
		append(args, "--remote", server.URL))
	return code, out.String(), errs.String()
}

// TestATokenThatOnlySends sends a prompt with a token that does not allow to read. The prompt is sent, so the command does not fail: a
// script that repeats it would send another one.
func TestATokenThatOnlySends(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = wire.Problem{Status: http.StatusForbidden, Detail: `the token does not allow "read"`}
		if r.Method == http.MethodPost {
			answer = wire.Prompt{Thread: "t", Key: r.Header.Get("Idempotency-Key"), N: 1, Agent: "a", State: wire.PromptSent, New: true}
		} else {
			w.WriteHeader(http.StatusForbidden)
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	if code, stdout, stderr := sendTo(t, server); code != 0 || !strings.Contains(stdout, "to thread t") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// TestAnAnswerThatIsLost sends a prompt to a server that ends the connection before it answers. The message has the key with which the user
// can repeat the command.
func TestAnAnswerThatIsLost(t *testing.T) {
	var key string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	code, _, stderr := sendTo(t, server)
	if code == 0 || key == "" || !strings.Contains(stderr, "--key "+key) {
		t.Errorf("exit code %d, %q; the key was %q", code, stderr, key)
	}
}

// TestAListThatDoesNotContinue lists from a server that gives the same cursor with each window. The command must end.
func TestAListThatDoesNotContinue(t *testing.T) {
	for _, verb := range []string{"inbox", "threads"} {
		windows := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next := "7"
			if windows++; windows > 5 {
				next = ""
			}
			var answer any = wire.PromptList{Prompts: []wire.Prompt{}, Next: next}
			if verb == "inbox" {
				answer = wire.QuestionList{Questions: []wire.Question{}, Next: next}
			}
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		}))
		code, _, stderr := runOn(t, server, "fleet", verb)
		server.Close()
		if code != 9 || !strings.Contains(stderr, "same part of the list") || windows != 2 {
			t.Errorf("%s: exit code %d after %d windows, %q", verb, code, windows, stderr)
		}
	}
}
