package codex_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// count adds the record of a session's total.
func (s *session) count(in, out int) {
	s.event("token_count", map[string]any{"info": map[string]any{"total_token_usage": map[string]any{"input_tokens": in, "output_tokens": out}}})
}

// TestTokens counts a repeated total once, and continues after a process that began to count again.
func TestTokens(t *testing.T) {
	e := newEnv(t)
	s := e.session(1)
	src := segno.Source{Session: segno.SessionID(s.thread), Path: s.path()}
	if got, err := e.c.Tokens(t.Context(), src); got != nil || err != nil {
		t.Errorf("without a record: %v, %v", got, err)
	}
	s.event("token_count", map[string]any{"info": nil}) // Codex reports a rate limit before the first call
	for _, total := range [][2]int{{100, 5}, {250, 9}, {250, 9}, {120, 4}} {
		s.count(total[0], total[1])
	}
	s.flush()
	got, err := e.c.Tokens(t.Context(), src)
	if diff := cmp.Diff(&transcript.Tokens{Input: 370, Output: 13}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := e.c.Tokens(t.Context(), segno.Source{Session: secondID}); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("without a session: %v", err)
	}
}
