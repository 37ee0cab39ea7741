package proxy_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestTurns runs a conversation with agents that support all methods of sessions, or none.
func TestTurns(t *testing.T) {
	for name, agent := range map[string]func(string) acptest.Config{"full": acptest.Full, "none": none} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, agent)
			c, s := r.session()
			r.turn(c, s, "first "+acptest.Directive(acptest.Do("one"), acptest.Say("done one")))
			r.turn(c, s, "second "+acptest.Directive(acptest.Do("two"), acptest.Say("done two")))
			if got := r.ledger(); got != "one two" {
				t.Errorf("the ledger has %q", got)
			}
			if got := r.turns(); len(got) != 2 || !strings.HasPrefix(got[0], "second") {
				t.Errorf("the log has %q", got)
			}
		})
	}
}

// TestAgentKilledInTool kills the agent in a tool call. The turn continues: no effect is
// repeated, and the client gets one answer.
func TestAgentKilledInTool(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, agent := range map[string]func(string) acptest.Config{"full": acptest.Full, "none": none} {
		for _, strike := range []string{"intent", "effect", "recorded", "result"} {
			t.Run(name+" "+strike, func(t *testing.T) {
				r := newRig(t, agent)
				c, s := r.session()
				r.turn(c, s, "first "+acptest.Directive(acptest.Do("one"), acptest.Say("done one")))
				r.turn(c, s, "second "+acptest.Directive(acptest.Do("two"),
					acptest.Step{Tool: "ledger", Line: "three", Strike: strike, Times: 1}, acptest.Do("four"), acptest.Say("all done")))
				if got := r.ledger(); got != "one two three four" {
					t.Errorf("the ledger has %q", got)
				}
				for _, line := range []string{"appended one", "appended two"} {
					if !strings.Contains(r.last(), line) {
						t.Errorf("the request to the model lacks %q:\n%s", line, r.last())
					}
				}
				if got := r.turns(); len(got) != 2 {
					t.Errorf("the log has %q", got)
				}
				r.segno("check")
			})
		}
	}
}

// TestClientReconnects loads and resumes a session in a new process of segno.
func TestClientReconnects(t *testing.T) {
	eachMethod(t, map[string]func(string) acptest.Config{"full": acptest.Full, "none": none}, []string{"load", "resume"}, func(t *testing.T, r *rig, method string) {
		c, s := r.session()
		r.turn(c, s, "first "+acptest.Directive(acptest.Do("one"), acptest.Say("done one")))
		c.CloseStdin()
		if _, err := c.Wait(r.ctx); err != nil {
			t.Fatal(err)
		}
		c = r.client()
		if got := r.open(c, method, s); got != s {
			t.Fatalf("the session is %s now", got)
		}
		r.turn(c, s, "second "+acptest.Directive(acptest.Do("two"), acptest.Say("done two")))
		if !strings.Contains(r.last(), "appended one") {
			t.Errorf("the request to the model lacks the first turn:\n%s", r.last())
		}
		if method == "load" {
			said := ""
			for _, m := range c.Messages() {
				said += m.Update() + " " + m.Content() + "\n"
			}
			for _, want := range []string{"user_message_chunk first", "agent_message_chunk done one"} {
				if !strings.Contains(said, want) {
					t.Errorf("%q was not replayed:\n%s", want, said)
				}
			}
		}
		if got := r.turns(); len(got) != 2 {
			t.Errorf("the log has %q", got)
		}
	})
}
