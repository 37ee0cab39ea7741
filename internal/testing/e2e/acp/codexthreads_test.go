package acp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/executable"
)

// TestACPCodexHooks also enables the hooks of Codex, and runs a turn in the terminal between two in the
// client. segno records every turn once, in one thread.
func TestACPCodexHooks(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			s.Segno("enable", "codex")
			s.trustHooks()
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "one"))
			c.say(e2erig.Prompt("beta", "two"))
			c.say("/undo")
			c.say(e2erig.Prompt("gamma", "three"))
			c.hangUp()
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			if show := s.Segno("show", "t1"); strings.Count(show, "echo 1 > a.txt") != 1 {
				t.Errorf("show t1 says\n%s", show)
			}

			session := s.Turns()[2].Session
			s.exec(e2erig.Prompt("delta", "four"), "resume", session, "--dangerously-bypass-hook-trust")
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma", "t4 delta")
			again := s.connect()
			again.begin("load", c.session, nil)
			again.say("/undo 2")
			again.say(e2erig.Prompt("epsilon", "five"))
			again.hangUp()
			s.heard("epsilon", []string{"alpha", "one"}, []string{"beta", "gamma", "delta"})
			var threads []struct{ ID string }
			s.JSON(&threads, "threads")
			if len(threads) != 1 {
				t.Errorf("%d threads", len(threads))
			}
			if _, err := os.Stat(filepath.Join(s.Store, "hook.log")); err == nil {
				t.Error("a hook had something to say")
			}
		})
	}
}

// trustHooks makes the agent run hooks that the user did not review.
func (s *acpStage) trustHooks() {
	s.Helper()
	script := filepath.Join(s.Rig.Home, "codex.sh")
	text := "#!/bin/sh\nexec '" + strings.Join(s.codex(s.Ctx).Args, "' '") + "' --dangerously-bypass-hook-trust \"$@\"\n"
	if err := executable.Write(script, []byte(text)); err != nil {
		s.Fatal(err)
	}
	s.Rig.Vars["CODEX_PATH"] = script
}

// TestACPCodexRecordedBefore continues a thread whose first turns have no position in a transcript,
// because segno could not read it: it was an older version, or Codex had another home.
func TestACPCodexRecordedBefore(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			home := filepath.Join(s.Rig.Home, ".codex")
			s.Rig.Vars["CODEX_HOME"] = filepath.Join(s.Rig.Home, "none")
			c := s.connectTo(s.behind(append([]string{"/usr/bin/env", "CODEX_HOME=" + home}, s.agent.Command...)...)...)
			c.begin("new", "", nil)
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "one"))
			c.say(e2erig.Prompt("beta", "two"))
			c.hangUp()

			delete(s.Rig.Vars, "CODEX_HOME")
			again := s.connect()
			again.begin("load", c.session, nil)
			gamma := e2erig.Prompt("gamma", "three")
			again.say(gamma)
			again.say(e2erig.Prompt("delta", "four"))
			again.say("/undo 2")
			again.say(gamma) // in the agent's own fork, or after a summary
			s.heard("gamma", []string{"alpha", "beta", "two"}, []string{"delta"})
			epsilon := e2erig.Prompt("epsilon", "five")
			again.say(epsilon)
			again.say("/undo")
			again.say(epsilon)
			s.sameRequest("epsilon")
			again.hangUp()
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma", "t4 delta", "t5 gamma", "t6 epsilon", "t7 epsilon")
		})
	}
}

// TestACPCodexCompaction goes back to a turn after a compaction and to one before it, from the agent's files
// and from the store.
func TestACPCodexCompaction(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "answer to alpha"))
			beta := e2erig.Prompt("beta", s.shell("echo 2 > a.txt"), "answer to beta")
			c.say(beta)
			c.say("/compact")
			gamma := e2erig.Prompt("gamma", s.shell("echo 3 > a.txt"), "answer to gamma")
			c.say(gamma)
			c.say("/undo")
			c.say(gamma)
			s.sameRequest("gamma")
			c.say("/restore t1")
			c.say(beta)
			s.sameRequest("beta")
			c.hangUp()
			s.deleteTranscripts()
			again := s.connect()
			again.begin("load", c.session, nil)
			again.say("/restore t3")
			again.say(gamma)
			s.sameRequest("gamma")
			again.hangUp()
		})
	}
}

// TestACPCodexTwoClients uses one session alternately with two clients, each with a separate segno. Codex
// lets only one process at a time use a session: the second client continues in a copy with the turns of the
// first.
func TestACPCodexTwoClients(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			first := s.open()
			first.say(e2erig.Prompt("alpha", "one"))
			second := s.connect()
			second.begin("load", first.session, nil)
			second.say(e2erig.Prompt("beta", "two"))
			s.heard("beta", []string{"alpha", "one"}, nil)
			first.say(e2erig.Prompt("gamma", "three"))
			s.heard("gamma", []string{"alpha", "one", "beta", "two"}, nil)
			second.say(e2erig.Prompt("delta", "four"))
			s.heard("delta", []string{"alpha", "beta", "gamma"}, nil)
			first.hangUp()
			second.hangUp()
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma", "t4 delta")
		})
	}
}
