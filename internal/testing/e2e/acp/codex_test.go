package acp_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

// codexAgents returns the versions of codex-acp on which a scenario runs, if the test is drawn.
func codexAgents(t *testing.T) []agentrig.ACPAgent {
	return e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest)
}

// firstCalls returns the first model call of each turn with a prompt, in order.
func (s *acpStage) firstCalls(prompt string) (calls []fakemodel.Request) {
	for _, c := range s.Model.Calls() {
		if ms := c.Messages(); len(ms) > 0 && strings.HasPrefix(ms[len(ms)-1].Text(), prompt) {
			calls = append(calls, c)
		}
	}
	return calls
}

// sameRequest checks that the newest two turns with the same prompt began with the same request.
func (s *acpStage) sameRequest(prompt string) {
	s.Helper()
	calls := s.firstCalls(prompt)
	if len(calls) < 2 {
		s.Fatalf("the model was sent %q %d times", prompt, len(calls))
	}
	calls = calls[len(calls)-2:]
	if diff := cmp.Diff(calls[0].Messages(), calls[1].Messages()); diff != "" {
		s.Errorf("the requests for %q differ (-first +second):\n%s", prompt, diff)
	}
}

// fidelities returns the fidelities of the thread's chain, oldest first.
func (s *acpStage) fidelities() string {
	s.Helper()
	var threads []struct {
		Chain []struct{ Reason, Fidelity string }
	}
	s.JSON(&threads, "threads")
	var out []string
	for _, l := range threads[0].Chain {
		out = append(out, l.Reason+":"+l.Fidelity)
	}
	return strings.Join(out, " ")
}

// TestACPCodexCuts undoes a turn, forks and edits. Each time, the model receives the same request as
// at that turn before, including the system's messages.
func TestACPCodexCuts(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			alpha := e2erig.Prompt("alpha", s.agent.Edit("new.txt", "new\n"), s.shell("cat a.txt; echo 1 > a.txt"), "answer to alpha")
			beta := e2erig.Prompt("beta", s.shell("echo 2 > a.txt"), "answer to beta")
			gamma := e2erig.Prompt("gamma", s.shell("echo 3 > a.txt"), "answer to gamma")
			c.say(alpha)
			c.say(beta)
			c.say(gamma)

			c.say("/undo")
			c.say(gamma)
			s.sameRequest("gamma")
			fork := *c
			fork.begin("fork", c.session, map[string]any{"_meta": map[string]any{"segno": map[string]any{"at": "t1"}}})
			fork.say(beta)
			s.sameRequest("beta")
			side := *c // a fork at the head, which moves back to its beginning
			side.begin("fork", c.session, nil)
			side.say(e2erig.Prompt("omicron", "answer to omicron"))
			side.say("/undo")
			side.say(e2erig.Prompt("sigma", "answer to sigma"))
			s.heard("sigma", []string{"answer to gamma"}, []string{"omicron"})
			c.say(e2erig.Prompt("lambda", "answer to lambda"))
			s.heard("lambda", []string{"answer to gamma"}, []string{"omicron", "sigma"})
			c.lists(c.session, fork.session, side.session)
			c.say("/edit 2 " + beta)
			s.sameRequest("beta")
			c.say("/restore t3")
			c.say(e2erig.Prompt("delta", "answer to delta"))
			s.heard("delta", []string{"answer to beta", "answer to gamma"}, nil)
			c.hangUp()
			if got := s.fidelities(); strings.Contains(got, "preamble") {
				t.Errorf("the chain is %s", got)
			}
		})
	}
}

// codex returns a command that runs the agent's own program of Codex.
func (s *acpStage) codex(ctx context.Context, args ...string) *exec.Cmd {
	node, script := s.agent.Command[0], s.agent.Command[1]
	modules := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(script))))
	cmd := s.agent.Start(ctx, append([]string{node, filepath.Join(modules, "@openai", "codex", "bin", "codex.js")}, args...)...)
	return cmd
}

// exec runs codex exec in the terminal.
func (s *acpStage) exec(prompt string, subcommand ...string) {
	s.Helper()
	args := append(append([]string{"exec"}, subcommand...), "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt)
	if out, err := s.codex(s.Ctx, args...).CombinedOutput(); err != nil {
		s.Fatalf("codex exec: %v\n%s", err, out)
	}
}

// rollouts returns the ids of the sessions of Codex.
func (s *acpStage) rollouts() (ids []string) {
	s.Helper()
	files, err := s.agent.Transcripts()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".jsonl")
		ids = append(ids, name[len(name)-36:])
	}
	return ids
}

// TestACPCodexTerminal continues a session of the terminal in the client, and then in the terminal
// again.
func TestACPCodexTerminal(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			s.exec(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "answer to alpha"))
			id := s.rollouts()[0]
			s.exec(e2erig.Prompt("beta", "answer to beta"), "resume", id)
			c := s.connect()
			c.begin("load", id, nil)
			if got := said(c); !strings.Contains(got, "answer to alpha") || !strings.Contains(got, "answer to beta") {
				t.Errorf("a load shows %q", got)
			}
			gamma := e2erig.Prompt("gamma", s.shell("echo 3 > a.txt"), "answer to gamma")
			c.say(gamma)
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			c.say("/undo")
			c.say(gamma)
			s.sameRequest("gamma")
			c.say("/undo 2")
			c.say(e2erig.Prompt("delta", "answer to delta"))
			s.heard("delta", []string{"alpha", "answer to alpha"}, []string{"beta", "gamma"})
			c.hangUp()

			turns := s.Turns()
			last := turns[len(turns)-1].Session
			if run := s.Segno("resume"); !strings.Contains(run, "codex resume "+last) {
				t.Errorf("segno resume says %q", run)
			}
			s.exec(e2erig.Prompt("epsilon", "answer to epsilon"), "resume", last)
			s.heard("epsilon", []string{"alpha", "answer to delta"}, []string{"beta", "gamma"})
			c = s.connect()
			c.begin("load", id, nil)
			if got := said(c); !strings.Contains(got, "answer to epsilon") {
				t.Errorf("a load shows %q", got)
			}
			c.say(e2erig.Prompt("zeta", "answer to zeta"))
			c.hangUp()
			s.heard("zeta", []string{"answer to alpha", "answer to delta", "answer to epsilon"}, []string{"beta", "gamma"})
		})
	}
}

// TestACPCodexPurged removes the sessions of Codex while it runs: between two turns, and within one.
func TestACPCodexPurged(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			s.Rig.Vars["TZ"] = "EST5" // Codex names files after the local time, and its database has their paths
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "answer to alpha"))
			s.deleteTranscripts()
			beta := e2erig.Prompt("beta", s.shell("echo 2 > a.txt"), "answer to beta")
			c.say(beta)
			if got := s.rollouts(); len(got) != 1 || got[0] != c.session {
				t.Errorf("the sessions are %q, want %s", got, c.session)
			}
			c.say(e2erig.Prompt("gamma", s.shell("rm -r "+filepath.Join(s.Rig.Home, ".codex", "sessions")), "answer to gamma"))
			c.hangUp()

			c2 := s.connect()
			c2.begin("load", c.session, nil)
			if got := c2.shown(); !strings.Contains(got, "answer to alpha") || !strings.Contains(got, "answer to gamma") {
				t.Errorf("a load shows %q", got)
			}
			c2.say(e2erig.Prompt("delta", "answer to delta"))
			s.heard("delta", []string{"alpha", "answer to alpha", "answer to beta", "answer to gamma", "rm -r"}, nil)
			c2.say("/undo 3")
			c2.say(beta)
			s.sameRequest("beta")
			c2.hangUp()
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma", "t4 delta", "t5 beta")
			if got := s.fidelities(); got != "start:native restore:native resume:rebuilt undo:rebuilt" {
				t.Errorf("the chain is %s", got)
			}
		})
	}
}

// TestACPCodexFork makes the agent fork a session that segno does not know. The fork is a rollout
// that refers to the other one.
func TestACPCodexFork(t *testing.T) {
	t.Parallel()
	for _, agent := range codexAgents(t) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			s.exec(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "answer to alpha"))
			id := s.rollouts()[0]
			c := s.connect()
			c.begin("load", id, nil)
			fork := *c
			fork.begin("fork", id, nil)
			beta := e2erig.Prompt("beta", "answer to beta")
			fork.say(beta)
			fork.say("/undo")
			fork.say(beta)
			s.sameRequest("beta")
			c.say(e2erig.Prompt("gamma", "answer to gamma"))
			s.heard("gamma", []string{"answer to alpha"}, []string{"beta"})
			c.hangUp()
			if err := os.RemoveAll(filepath.Join(s.Rig.Home, ".codex", "sessions")); err != nil {
				t.Fatal(err)
			}
			c = s.connect()
			c.begin("load", fork.session, nil)
			c.say(e2erig.Prompt("delta", "answer to delta"))
			s.heard("delta", []string{"answer to alpha", "answer to beta"}, []string{"gamma"})
			c.hangUp()
		})
	}
}
