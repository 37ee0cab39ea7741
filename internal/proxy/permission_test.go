package proxy_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestDeniedCallsAreNotCounted uses a user who allows calls, rejects calls, one of them
// with a long request, and does not answer a request before the turn is cancelled.
func TestDeniedCallsAreNotCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, acptest.Full)
	c := r.greet(acptest.ClientOptions{Permit: func(m acptest.Received) string {
		switch {
		case strings.Contains(string(m.Line), "no-"):
			return "reject"
		case strings.Contains(string(m.Line), "late-"):
			return ""
		}
		return "allow"
	}})
	s := r.open(c, "new", "")
	ask := func(line string) acptest.Step { return acptest.Step{Tool: "ledger", Line: line, Ask: true} }
	r.turn(c, s, "alpha "+acptest.Directive(acptest.Do("free"), ask("yes-one"), ask("no-one"), ask("no-"+strings.Repeat("x", 2*segno.MaxUnclipped)), acptest.Say("done")))
	turn := r.prompt(c, s, "beta "+acptest.Directive(ask("yes-two"), ask("late-one"), acptest.Say("done")))
	if _, err := c.Await(r.ctx, turn.From, func(m acptest.Received) bool {
		return m.MethodName() == "session/request_permission" && strings.Contains(string(m.Line), "late-one")
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	r.ends(turn, "cancelled")
	if got := r.ledger(); got != "free yes-one yes-two" {
		t.Fatalf("the ledger has %q", got)
	}
	if got := r.log(); len(got) != 2 || got[1].Shell != 2 || got[0].Shell != 1 {
		t.Errorf("want 2 commands and then 1, the log has %+v", got)
	}
}
