package proxy_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestACancelledForkLeavesNoThread cancels a fork while the agent makes the fork's session. The client receives an error, so the
// store must have no thread of the fork.
func TestACancelledForkLeavesNoThread(t *testing.T) {
	r := newRig(t, none)
	c, s := r.session()
	r.turn(c, s, "alpha "+acptest.Directive(acptest.Say("said-alpha")))
	r.leave(c)
	r.agent.Deaf = []string{"session/new"}
	c = r.client()
	fork, err := c.Go("session/fork", map[string]any{"sessionId": s, "cwd": r.project, "mcpServers": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	r.until("the fork", func() bool { return strings.Count(r.segno("threads", "--json"), `"head"`) == 2 })
	if err := c.Cancel(s); err != nil {
		t.Fatal(err)
	}
	if m, err := fork.Answer(r.ctx); err != nil || m.Err() == nil {
		t.Fatalf("the fork was answered with %s, %v", m.Line, err)
	}
	if out := r.segno("threads", "--json"); strings.Count(out, `"head"`) != 1 {
		t.Errorf("threads:\n%s", out)
	}
}
