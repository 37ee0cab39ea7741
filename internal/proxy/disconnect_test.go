package proxy_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestDisconnectIsAnInterruption disconnects a client while a call runs, or while a call waits for permission. The
// preamble of the next session reports an interruption. It does not report that the user cancelled the turn, nor a
// call that never ran.
func TestDisconnectIsAnInterruption(t *testing.T) {
	t.Parallel()
	ways := map[string]func(r *rig, c *acptest.Client, s string){
		"closes": func(r *rig, c *acptest.Client, _ string) { r.leave(c) },
		"kills": func(r *rig, c *acptest.Client, _ string) {
			c.Kill()
			<-c.Exited()
		},
		"pauses": func(r *rig, c *acptest.Client, s string) {
			r.segno("generations", "pause", r.thread(), "--grace", "0s")
			<-c.Exited()
		},
		"closes the session": func(r *rig, c *acptest.Client, s string) {
			if _, err := c.Call(r.ctx, "session/close", map[string]string{"sessionId": s}); err != nil {
				r.Fatal(err)
			}
			r.leave(c)
		},
	}
	for name, agent := range kinds() {
		for way, leave := range ways {
			for _, asks := range []bool{false, true} {
				title := name + " " + way
				if asks {
					title += " at a question"
				}
				t.Run(title, func(t *testing.T) {
					t.Parallel()
					r := newRig(t, agent)
					c := r.greet(acptest.ClientOptions{Permit: func(acptest.Received) string { return "" }})
					s := r.open(c, "new", "")
					r.write(c, s, "alpha")
					step := acptest.Step{Tool: "ledger", Line: "open-call", Hold: r.home + "/never"}
					if asks {
						step = acptest.Step{Tool: "ledger", Line: "open-call", Ask: true}
					}
					turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Do("beta-line"), acptest.Say("on it"), step))
					r.says(turn, "on it")
					if _, err := c.Await(r.ctx, turn.From, func(m acptest.Received) bool {
						return strings.Contains(string(m.Line), "open-call") && (!asks || m.MethodName() == "session/request_permission")
					}); err != nil {
						t.Fatal(err)
					}
					leave(r, c, s)
					c = r.client()
					r.open(c, "resume", s)
					r.say(c, s, "gamma")
					text := r.sent().Text()
					if strings.Contains(text, "cancelled") || strings.Contains(text, "do not go on with it") || strings.Contains(text, "may have had effects") {
						t.Errorf("the model is told\n%s", text)
					}
					if !strings.Contains(text, "You were interrupted before you had finished") {
						t.Errorf("the model is not told of the interruption:\n%s", text)
					}
					if want := "before the user answered: it was not made"; asks && !strings.Contains(text, want) {
						t.Errorf("the model is not told %q:\n%s", want, text)
					}
					if got := r.ledger(); strings.Contains(got, "open-call") {
						t.Errorf("the ledger has %q", got)
					}
				})
			}
		}
	}
}

// TestWaitingPromptIsAnsweredAtTheEnd disconnects a client while a prompt waits for the end of another one. Both are answered.
func TestWaitingPromptIsAnsweredAtTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.session()
	turn := r.prompt(c, s, "alpha "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/never"}))
	waiting := r.prompt(c, s, "beta")
	r.says(turn, "on it")
	r.leave(c)
	r.ends(turn, "cancelled")
	r.ends(waiting, "cancelled")
}

// TestUsersCancelIsTold cancels a turn and then disconnects. The record still has the user's cancel.
func TestUsersCancelIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.session()
	r.write(c, s, "alpha")
	turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("on it"), acptest.Step{Wait: r.home + "/never"}))
	r.says(turn, "on it")
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	r.leave(c)
	c = r.client()
	r.open(c, "resume", s)
	r.say(c, s, "gamma")
	r.wantSeen([]string{"The user cancelled this before you had finished; do not go on with it"})
}

// thread returns the thread of the newest turn.
func (r *rig) thread() string {
	r.Helper()
	return r.log()[0].Thread
}

// TestWakeOfAgentWithoutTranscript wakes a paused thread whose agent has no transcript that segno can read: only its
// client can continue it.
func TestWakeOfAgentWithoutTranscript(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.say(c, s, "alpha")
		r.segno("generations", "pause", r.thread(), "--grace", "0s")
		<-c.Exited()
		if out := r.segno("generations", "wake", r.thread()); !strings.Contains(out, "awake: thread") {
			t.Errorf("wake printed %q", out)
		}
		c = r.client()
		r.open(c, "load", s)
		r.say(c, s, "beta")
		r.wantSeen([]string{"alpha", "beta"})
	})
}
