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
	var out, errs bytes.Buffer
	code = cli.Main(t.Context(), cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: func() []string { return nil },
		Getenv: func(name string) string {
			return map[string]string{"SEGNO_TOKEN": "token", "HOME": t.TempDir(), "NO_COLOR": "1"}[name]
		},
		Getwd: func() (string, error) { return t.TempDir(), nil }, Executable: os.Executable}, []cli.Wing{Wing(nil)},
		append([]string{"send", "--remote", server.URL, "--thread", "t", "--agent", "a", "-p", "text"}, args...))
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
