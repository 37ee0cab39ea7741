package acp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestACPEveryAgent runs one conversation with the newest version of one of the adapters, and with three of all agents if the
// test is drawn: edits and commands, undo and redo, a killed segno, a fork, and a session that the agent has lost.
func TestACPEveryAgent(t *testing.T) {
	t.Parallel()
	agents := soak.Some(t, 1, agentrig.ClaudeACPNewest, agentrig.CodexACPNewest)
	if soak.IsDrawn(t) {
		agents = soak.Some(t, 3, agentrig.DurableACPAgents()...)
	}
	for _, agent := range agents {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n", "mine.txt": "mine\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.agent.Edit("new.txt", "new\n"), s.shell("echo 1 > a.txt"), "answer to alpha"))
			c.say(e2erig.Prompt("beta", s.shell("echo 2 > a.txt; rm new.txt"), "answer to beta"))
			if ts := s.checkTurns("t1 alpha", "t2 beta"); len(ts) == 2 && (ts[0].Files.Added != 1 || ts[0].Files.Modified != 1 || ts[1].Files.Deleted != 1) {
				t.Errorf("the turns are %+v", ts)
			}

			c.say("/undo")
			s.wantFiles("1", "new")
			c.say("/redo")
			s.wantFiles("2", "")
			c.say("/undo")
			c.say(e2erig.Prompt("gamma", s.shell("echo 3 > a.txt"), "answer to gamma"))
			s.heard("gamma", []string{"alpha", "answer to alpha"}, []string{"beta"})
			s.wantFiles("3", "new")

			c.KillOne()
			if _, err := c.Wait(s.Ctx); err != nil {
				t.Fatal(err)
			}
			again := s.connect()
			again.begin("load", c.session, nil)
			if shown := again.shown(); !strings.Contains(shown, "answer to alpha") || !strings.Contains(shown, "answer to gamma") || strings.Contains(shown, "answer to beta") {
				t.Errorf("after the kill -9, loading shows %q", shown)
			}
			again.say(e2erig.Prompt("delta", s.shell("echo 4 > a.txt"), "answer to delta"))
			s.heard("delta", []string{"alpha", "answer to gamma"}, []string{"beta"})

			fork := *again
			fork.begin("fork", again.session, map[string]any{"_meta": map[string]any{"segno": map[string]any{"at": "t1"}}})
			fork.say(e2erig.Prompt("omicron", "answer to omicron"))
			s.heard("omicron", []string{"alpha", "answer to alpha"}, []string{"beta", "gamma", "delta"})
			again.say(e2erig.Prompt("epsilon", "answer to epsilon"))
			s.heard("epsilon", []string{"gamma", "answer to delta"}, []string{"beta", "omicron"})
			again.hangUp()

			s.deleteTranscripts()
			last := s.connect()
			last.begin("load", again.session, nil)
			last.say(e2erig.Prompt("zeta", s.shell("echo 5 > a.txt"), "answer to zeta"))
			s.heard("zeta", []string{"alpha", "gamma", "answer to delta", "epsilon", "echo 3 > a.txt"}, []string{"beta", "omicron"})
			last.say("/undo")
			s.wantFiles("4", "new")
			last.hangUp()
			if got := s.ledger("mine.txt"); !slices.Equal(got, []string{"mine"}) {
				t.Errorf("the user's own file holds %q", got)
			}
		})
	}
}

// wantFiles checks the two files that the turns change; "" means that the file must not
// exist.
func (s *acpStage) wantFiles(a, fresh string) {
	s.Helper()
	if got := s.Read("a.txt"); got != a+"\n" {
		s.Errorf("a.txt holds %q, want %q", got, a)
	}
	switch {
	case s.Exists("new.txt") != (fresh != ""):
		s.Errorf("new.txt is there: %v", fresh == "")
	case fresh != "" && s.Read("new.txt") != fresh+"\n":
		s.Errorf("new.txt holds %q", s.Read("new.txt"))
	}
}

// TestACPDenied refuses a command. The command does not run, and the next session, which
// gets the conversation only from segno, receives that the user refused it.
func TestACPDenied(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest, agentrig.CodexACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPOldest, agentrig.OpenCode) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			for mode, has := range map[string]bool{"default": agent.IsClaude(), "read-only": agent.IsCodex()} {
				if !has {
					continue // its configuration makes opencode ask
				}
				if _, err := c.Call(s.Ctx, "session/set_mode", map[string]any{"sessionId": c.session, "modeId": mode}); err != nil {
					t.Fatal(err)
				}
			}
			s.answer = "reject_once"
			if _, _, err := c.ask(e2erig.Prompt("alpha", s.agent.AskingShell("echo denied > a.txt"), "answer to alpha")); err != nil {
				t.Errorf("the turn with the refused command ended with %v", err)
			}
			if !slices.ContainsFunc(c.Messages(), isPermission) {
				t.Fatal("the agent did not ask")
			}
			s.answer = "allow_once"
			if got := s.Read("a.txt"); got != "0\n" {
				t.Errorf("the refused command left %q", got)
			}
			c.say(e2erig.Prompt("beta", "answer to beta"))
			c.hangUp()
			if ts := s.checkTurns("t1 alpha", "t2 beta"); len(ts) > 0 && ts[0].Shell != 0 {
				t.Errorf("the log counts %d shell calls, the only one was refused", ts[0].Shell)
			}
			s.deleteTranscripts()
			again := s.connect()
			again.begin("load", c.session, nil)
			again.say(e2erig.Prompt("gamma", "answer to gamma"))
			again.hangUp()
			decision := "the user rejected it"
			switch { // a restored transcript has the agent's own words
			case agent.IsClaude():
				decision = "User refused permission to run tool"
			case agent.IsCodex():
				decision = "aborted by user"
			}
			s.heard("gamma", []string{"alpha", "echo denied", decision}, []string{"failed", "unknown"})
		})
	}
}

func isPermission(r acptest.Received) bool { return r.MethodName() == "session/request_permission" }
