package acp_test

import (
	"os"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// foreign makes a session of two turns without segno.
func (s *acpStage) foreign() string {
	s.Helper()
	c := s.connectTo(s.agent.Command...)
	c.begin("new", "", nil)
	c.say(e2erig.Prompt("alpha", s.shell("echo alpha-line >> ledger"), "answer to alpha"))
	c.say(e2erig.Prompt("beta", "answer to beta"))
	c.hangUp()
	return c.session
}

// TestACPForeignSession opens a session that segno does not know. segno records its turns,
// which survive an undo, an edit, and the loss of all the agent's files.
func TestACPForeignSession(t *testing.T) {
	t.Parallel()
	for _, method := range e2erig.Cases(t, []string{"load"}, "resume") {
		t.Run(method, func(t *testing.T) {
			s := newACPStage(t, agentrig.CodexACPNewest, map[string]string{"a.txt": "0\n"})
			id := s.foreign()
			c := s.connect()
			c.begin(method, id, nil)
			if got := said(c); strings.Contains(got, "answer to alpha") != (method == "load") {
				t.Errorf("a %s shows %q", method, got)
			}
			c.say(e2erig.Prompt("gamma", "answer to gamma"))
			s.heard("gamma", []string{"alpha", "answer to alpha", "answer to beta"}, nil)
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			if show := s.Segno("show", "t1"); !strings.Contains(show, "alpha-line") {
				t.Errorf("show t1 says\n%s", show)
			}
			c.say("/undo")
			c.say(e2erig.Prompt("delta", "answer to delta"))
			s.heard("delta", []string{"alpha", "answer to alpha", "answer to beta"}, []string{"gamma"})
			c.say("/edit 2 " + e2erig.Prompt("epsilon", "answer to epsilon"))
			s.heard("epsilon", []string{"alpha", "answer to alpha"}, []string{"answer to beta", "delta"})
			c.hangUp()
			if err := os.RemoveAll(s.Rig.Home + "/.codex/sessions"); err != nil {
				t.Fatal(err)
			}
			c = s.connect()
			c.begin("load", id, nil)
			if got := said(c); !strings.Contains(got, "answer to alpha") || !strings.Contains(got, "answer to epsilon") || strings.Contains(got, "answer to delta") {
				t.Errorf("a load from the record shows %q", got)
			}
			c.say(e2erig.Prompt("zeta", "answer to zeta"))
			s.heard("zeta", []string{"alpha", "alpha-line", "answer to alpha", "answer to epsilon"}, []string{"delta"})
			c.hangUp()
		})
	}
}

// said returns all of the agent's text that the client received.
func said(c *chat) string {
	var b strings.Builder
	for _, m := range c.Messages() {
		if m.Update() == "agent_message_chunk" {
			b.WriteString(m.Content())
		}
	}
	return b.String()
}
