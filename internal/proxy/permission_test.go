package proxy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
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

// TestAPermissionAfterACancel lets the user permit a call when the turn is cancelled already. The call must not run.
func TestAPermissionAfterACancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, changed(acptest.Full, func(c *acptest.Config) { c.Patient = true }))
	c := r.greet(acptest.ClientOptions{Permit: func(acptest.Received) string { return "" }})
	s := r.open(c, "new", "")
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Step{Tool: "ledger", Line: "late", Ask: true}, acptest.Say("done")))
	m, err := c.Await(r.ctx, turn.From, func(m acptest.Received) bool { return m.MethodName() == "session/request_permission" })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(`{"jsonrpc":"2.0","id":` + m.IDText() + `,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}` + "\n"); err != nil {
		t.Fatal(err)
	}
	r.ends(turn, "cancelled")
	if got := r.ledger(); got != "" {
		t.Errorf("the ledger has %q", got)
	}
}

// TestAgentCancelsARequestWithAnotherID lets an agent ask under an id that the client still has open, from an earlier process of the agent.
// The client receives another id. When the agent cancels its request, the client receives the id that it knows.
func TestAgentCancelsARequestWithAnotherID(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.greet(acptest.ClientOptions{Permit: func(acptest.Received) string { return "" }})
	s, other := r.open(c, "new", ""), r.open(c, "new", "")
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Step{Tool: "ledger", Line: "one", Ask: true}, acptest.Say("done")))
	isAsked := func(m acptest.Received) bool { return m.MethodName() == "session/request_permission" }
	first, err := c.Await(r.ctx, 0, isAsked)
	if err != nil {
		t.Fatal(err)
	}
	r.killAgent()
	second, err := c.Await(r.ctx, first.Place+1, isAsked)
	if err != nil {
		t.Fatal(err)
	}
	if second.IDText() == first.IDText() {
		t.Fatalf("two requests have the id %s", first.IDText())
	}
	from := c.Place()
	r.turn(c, other, "beta "+acptest.Directive(acptest.Step{Junk: `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + first.IDText() + `}}`}, acptest.Say("done")))
	cancelled, err := c.Await(r.ctx, from, func(m acptest.Received) bool { return m.MethodName() == "$/cancel_request" })
	if err != nil {
		t.Fatal(err)
	}
	if got := string(cancelled.Find(cancelled.Params, "requestId").Of(cancelled.Line)); got != second.IDText() {
		t.Errorf("the client was sent the cancellation of %s, and knows the request as %s", got, second.IDText())
	}
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	r.ends(turn, "cancelled")
}

// TestPermissionDuringACall lets a command that runs with permission ask for another one, as Codex does for the network. The user refuses
// that. What the command changed before it asked again is the turn's.
func TestPermissionDuringACall(t *testing.T) {
	t.Parallel()
	r := newRig(t, acptest.Full)
	c := r.greet(acptest.ClientOptions{Permit: func(m acptest.Received) string {
		if strings.Contains(string(m.Line), "network") {
			return "reject"
		}
		return "allow"
	}})
	s := r.open(c, "new", "")
	ask := func(title string) acptest.Step {
		return acptest.Step{Request: json.RawMessage(`{"method":"session/request_permission","params":{"sessionId":"` + s + `","toolCall":{"toolCallId":"c1","title":"` + title + `"},
			"options":[{"optionId":"allow","name":"Allow","kind":"allow_once"},{"optionId":"reject","name":"Reject","kind":"reject_once"}]}}`)}
	}
	update := func(fields string) acptest.Step {
		return acptest.Step{Raw: json.RawMessage(`{"toolCallId":"c1",` + fields + `}`)}
	}
	turn := r.prompt(c, s, "alpha "+acptest.Directive(update(`"sessionUpdate":"tool_call","title":"npm install","kind":"execute","status":"in_progress"`),
		ask("npm install"), acptest.Say("on it"), acptest.Step{Wait: r.home + "/go"}, ask("network"),
		update(`"sessionUpdate":"tool_call_update","status":"failed"`), acptest.Say("done")))
	r.says(turn, "on it")
	r.put("made", "by the command")
	r.touch(r.home + "/go")
	r.ends(turn, "end_turn")
	r.segno("undo", "-y")
	if _, err := os.Lstat(filepath.Join(r.project, "made")); err == nil {
		t.Error("undo left the file that the command made")
	}
}
