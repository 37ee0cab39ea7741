package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestSwitchByBeginningOfTitle names a thread by the first letters of its title, in either case.
func TestSwitchByBeginningOfTitle(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.session()
	r.say(c, s, "Fix the parser of dates")
	r.order(c, s, "/fork Another attempt")
	if said := r.order(c, s, "/switch fix the"); !strings.Contains(said, "Fix the parser of dates") {
		t.Errorf("said %q", said)
	}
	if said := r.order(c, s, "/switch Anot"); !strings.Contains(said, "Another attempt") {
		t.Errorf("said %q", said)
	}
	if said := r.order(c, s, "/switch No such"); !strings.HasPrefix(said, "segno: ") {
		t.Errorf("said %q", said)
	}
}

// TestDeletedSessionIsListedAgain prompts a session that was deleted: it is in the list of the next client.
func TestDeletedSessionIsListedAgain(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		if _, err := c.Call(r.ctx, "session/delete", map[string]string{"sessionId": s}); err != nil {
			t.Fatal(err)
		}
		if list, _ := r.listed(c, r.project); len(list) != 0 {
			t.Errorf("after the deletion the list has %v", list)
		}
		r.say(c, s, "beta")
		r.leave(c)
		if list, _ := r.listed(r.client(), r.project); len(list) != 1 {
			t.Errorf("after the prompt the list has %v", list)
		}
	})
}

// TestCallThatEndsInLaterTurn has an agent report the end of a call in the turn after. The result belongs to the call: in
// the record, in the summary for a new session and in a load.
func TestCallThatEndsInLaterTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.session()
	raw := func(update map[string]any) acptest.Step { return acptest.Step{Raw: acp.Encode(update)} }
	r.turn(c, s, "alpha "+acptest.Directive(raw(map[string]any{"sessionUpdate": "tool_call", "toolCallId": "bg", "title": "serve", "kind": "execute",
		"status": "in_progress", "rawInput": map[string]string{"command": "serve"}}), acptest.Say("it runs")))
	r.turn(c, s, "beta "+acptest.Directive(raw(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "bg", "status": "completed",
		"content": []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": "served"}}}}), acptest.Say("done")))
	c = r.comeBack(c, "load", s)
	var updates []string
	for _, m := range c.Messages() {
		if m.Update() == "tool_call" || m.Update() == "tool_call_update" {
			updates = append(updates, m.Update()+" "+m.Text(m.Find(m.Params, "update", "title"))+" "+m.Text(m.Find(m.Params, "update", "status")))
		}
	}
	if got := strings.Join(updates, ", "); got != "tool_call serve pending, tool_call_update  completed" {
		t.Errorf("a load shows %q", got)
	}
	r.say(c, s, "gamma")
	r.wantSeen([]string{"- You ran “serve”. It answered “served”."}, "its outcome is unknown", "something")
}

// TestBestEffortWithoutStore runs with a store that cannot be made.
func TestBestEffortWithoutStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	blocked := filepath.Join(r.home, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--store", filepath.Join(blocked, "store"), "acp", "--best-effort", "--"}, r.agentCommand()...)
	c := r.started(r.command(args...), acptest.ClientOptions{}, "")
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatalf("%v\n%s", err, c.Stderr())
	}
	r.say(c, r.open(c, "new", ""), "alpha")
	r.leave(c)
	if !strings.Contains(c.Stderr(), "nothing is recorded") {
		t.Errorf("the log has %q", c.Stderr())
	}
}

// TestWakeOfAgentWithoutTranscript wakes a paused thread whose agent has no transcript that segno can read: only its
// client can continue it.
func TestWakeOfAgentWithoutTranscript(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		r.segno("pause", r.thread(), "--grace", "0s")
		<-c.Exited()
		if out := r.segno("wake", r.thread()); !strings.Contains(out, "awake: thread") {
			t.Errorf("wake printed %q", out)
		}
		c = r.client()
		r.open(c, "load", s)
		r.say(c, s, "beta")
		r.wantSeen([]string{"alpha", "beta"})
	})
}
