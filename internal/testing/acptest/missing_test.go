package acptest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
	. "github.com/dalsegno/segno/internal/testing/acptest"
)

func TestASessionThatIsNotThereHasManyDisguises(t *testing.T) {
	const id = "0c6313dd-35e2-4133-b633-c81132d67981"
	for kind, want := range map[string]map[string]string{
		"claude-0.49": {"resume": "-32002 Resource not found: " + id, "fork": "-32002 Resource not found: ", "prompt": "-32603 Session not found",
			"close": "-32603 Session not found"},
		"claude-0.100": {"resume": "-32002 Resource not found", "load": "-32002 " + id, "prompt": "-32002 Resource not found"},
		"codex": {"resume": "-32603 no rollout found for thread id " + id, "prompt": "-32002 Session " + id + " not found",
			"close": "-32603 invalid thread id"},
		"opencode": {"load": "-32603 OpenCode service failure", "prompt": "-32602 session not found: " + id},
		"gemini":   {"load": "-32603 No previous sessions found for this project.", "prompt": "-32602 Session not found: " + id},
	} {
		t.Run(kind, func(t *testing.T) {
			c := Full(t.TempDir())
			c.Missing = kind
			r := start(t, ClientOptions{}, c.Args()...)
			for method, text := range want {
				_, err := r.Call(r.ctx, "session/"+method, map[string]any{"sessionId": id, "cwd": "/p", "prompt": []any{}})
				var e *acp.Error
				if !errors.As(err, &e) {
					t.Errorf("%s: %v", method, err)
					continue
				}
				code, says, _ := strings.Cut(text, " ")
				if got := string(acp.Encode(e)); !strings.Contains(got, code) || !strings.Contains(got, says) {
					t.Errorf("%s: %s, want %s", method, got, text)
				}
			}
		})
	}
}

func TestASessionOfAnotherDirectoryIsNotThere(t *testing.T) {
	c := Full(t.TempDir())
	c.Keyed = true
	r := start(t, ClientOptions{}, c.Args()...)
	s := r.open("new", "", "/p")
	r.ended(s, "hello", "end_turn")
	r = start(t, ClientOptions{}, c.Args()...)
	var e *acp.Error
	if _, err := r.Open(r.ctx, "resume", s, "/q"); !errors.As(err, &e) || e.Code != acp.CodeNotFound {
		t.Errorf("from another directory: %v", err)
	}
	r.open("resume", s, "/p")
}
