package acp_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACPRateLimit makes the model refuse in the middle of a turn, after a tool call. The client
// receives the agent's error unchanged, no call is repeated, and the conversation continues.
func TestACPRateLimit(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest, agentrig.CodexACPNewest}, agentrig.ClaudeACPOldest) {
		for _, status := range e2erig.Cases(t, []int{429}, 529, 401) {
			t.Run(string(agent)+"/"+strconv.Itoa(status), func(t *testing.T) {
				s := newACPStage(t, agent, nil)
				c := s.open()
				c.say(e2erig.Prompt("alpha", "one"))
				turn, stop, err := c.ask(e2erig.Prompt("beta", s.saidAnd("I run", "echo half >> ledger"), map[string]any{"error": status, "times": 2}, "two"))
				var refused *acp.Error
				switch {
				case err == nil && stop.Reason == "end_turn":
					// The agent continued without a prompt, or it reports failures as a normal end.
				case errors.As(err, &refused):
				default:
					t.Fatalf("the turn ended with %q, %v", stop.Reason, err)
				}
				if err == nil && !strings.Contains(turn.Said(), "two") && agent != agentrig.CodexACPNewest {
					t.Errorf("the turn ended well and said %q", turn.Said())
				}
				c.say(e2erig.Prompt("gamma", "three"))
				c.hangUp()
				if got := s.ledger("ledger"); !slices.Equal(got, []string{"half"}) {
					t.Errorf("the ledger has %q", got)
				}
				s.heard("gamma", []string{"alpha", "beta", "echo half"}, nil)
				s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			})
		}
	}
}

// TestACPKilledInMidTool kills the agent's process while its tool runs. The client receives one
// answer, the tool does not run again, and the model receives the state of the call.
func TestACPKilledInMidTool(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.CodexACPNewest, agentrig.ClaudeACPOldest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) { killedInMidTool(t, agent, false) })
	}
	// The oldest codex-acp never answers a prompt whose Codex process was killed, without segno either.
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest) {
		t.Run(string(agent)+"/child", func(t *testing.T) { killedInMidTool(t, agent, true) })
	}
}

func killedInMidTool(t *testing.T, agent agentrig.ACPAgent, child bool) {
	s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
	c := s.open()
	c.say(e2erig.Prompt("alpha", "one"))
	turn, err := c.Prompt(c.session, e2erig.Prompt("beta", s.half(), "two"))
	if err != nil {
		t.Fatal(err)
	}
	s.WaitFor("begun")
	victim := c.agentPID()
	if child {
		victim = s.withChildren(e2erig.ChildrenOf(t, victim))
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stop, err := turn.Stop(s.Ctx)
	s.Write("go", "")
	if err != nil || stop.Reason != "end_turn" {
		t.Errorf("the turn ended with %q, %v", stop.Reason, err)
	}
	c.say(e2erig.Prompt("gamma", "three"))
	c.hangUp()
	if n := count(s.ledger("ledger"), "half"); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
	s.heard("gamma", []string{"alpha", "beta", "echo half"}, nil)
	ts := s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
	if len(ts) == 3 && ts[2].Session == "" {
		t.Errorf("t3 is %+v", ts[2])
	}
	if show := s.Segno("show", "t2"); !strings.Contains(show, "echo half") {
		t.Errorf("show t2 says\n%s", show)
	}
}

// TestACPKilledAndForgotten kills the agent in the middle of a tool call and deletes its
// transcripts. Recovery then sends the model a description of the previous turns and of this one,
// which the scripted model ignores.
func TestACPKilledAndForgotten(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.saidAnd("I write", "echo 1 > a.txt"), "answer one"))
			turn, err := c.Prompt(c.session, e2erig.Prompt("beta", s.saidAnd("I look", "echo first >> ledger"), s.half(), "two"))
			if err != nil {
				t.Fatal(err)
			}
			s.WaitFor("begun")
			victim, before := c.agentPID(), len(s.Model.Calls())
			s.deleteTranscripts()
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			s.Write("go", "")
			if stop, err := turn.Stop(s.Ctx); err != nil || stop.Reason != "end_turn" {
				t.Errorf("the turn ended with %q, %v", stop.Reason, err)
			}
			again := s.Model.Calls()[before] // the first call after it
			// Codex reports a call some time after it began; in that case the text names its files.
			for _, text := range []string{"echo 1 > a.txt", "answer one", "echo first >> ledger", "begun"} {
				if !strings.Contains(everything(again), text) {
					t.Errorf("the model is not sent %q:\n%s", text, transcriptOf(again))
				}
			}
			c.say(e2erig.Prompt("gamma", "three"))
			c.lists(c.session)
			c.hangUp()
			s.heard("gamma", []string{"answer one", "echo first"}, nil)
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
		})
	}
}

// withChildren returns the process that has child processes, which is the one that runs the tool.
func (s *acpStage) withChildren(pids []int) int {
	s.Helper()
	for _, pid := range pids {
		if len(e2erig.ChildrenOf(s.T, pid)) > 0 {
			return pid
		}
	}
	s.Fatalf("none of %v runs anything", pids)
	return 0
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// TestACPTranscriptDeleted continues a session whose transcript was deleted. segno writes the
// transcript back: the agent continues its own session, and the model receives the same request as
// before.
func TestACPTranscriptDeleted(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.saidAnd("I run", "echo half >> ledger"), "answer one"))
			c.say(e2erig.Prompt("beta", "answer two"))
			c.hangUp()
			want := e2erig.Conversation(s.CallFor("beta"))
			s.deleteTranscripts()
			again := s.connect()
			again.begin("resume", c.session, nil)
			if again.session != c.session {
				t.Errorf("the client's id became %s", again.session)
			}
			again.say(e2erig.Prompt("gamma", "answer three"))
			again.say(e2erig.Prompt("delta", "answer four"))
			again.lists(c.session)
			again.hangUp()
			s.heard("gamma", []string{"alpha", "beta", "echo half", "answer two"}, nil)
			s.heard("delta", []string{"gamma", "answer three"}, nil)
			got := e2erig.Conversation(s.CallFor("gamma"))
			if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
				t.Errorf("what the model was sent before gamma (-want +got):\n%s", diff)
			}
			if got := s.ledger("ledger"); len(got) != 1 {
				t.Errorf("the ledger has %q", got)
			}
			ts := s.checkTurns("t1 alpha", "t2 beta", "t3 gamma", "t4 delta")
			if slices.ContainsFunc(ts, func(turn e2erig.Checkpoint) bool { return turn.Session != c.session }) {
				t.Errorf("the turns are %+v", ts)
			}
		})
	}
}

// TestACPDeletedWhileRunning deletes the transcript of a session that the agent has loaded. The next
// prompt restores it first, because the agent would write only the later turns.
func TestACPDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, nil)
			c := s.open()
			c.say(e2erig.Prompt("alpha", "answer one"))
			s.deleteTranscripts()
			c.say(e2erig.Prompt("beta", "answer two"))
			s.heard("beta", []string{"alpha", "answer one"}, nil)
			c.hangUp()
			again := s.connect()
			again.begin("load", c.session, nil)
			again.say(e2erig.Prompt("gamma", "answer three"))
			again.hangUp()
			s.heard("gamma", []string{"alpha", "answer one", "answer two"}, nil)
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
		})
	}
}

// lists checks that session/list has the ids that the client knows, and no others.
func (c *chat) lists(want ...string) {
	c.s.Helper()
	list, err := c.List(c.s.Ctx, c.s.Rig.Project)
	if err != nil {
		c.s.Fatal(err)
	}
	var got []string
	for _, l := range list {
		got = append(got, l.SessionID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.s.Errorf("the sessions listed are %q, want %q", got, want)
	}
}

func (s *acpStage) deleteTranscripts() {
	s.Helper()
	files, err := s.agent.Transcripts()
	if err != nil || len(files) == 0 {
		s.Fatal("no transcript to delete", err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			s.Fatal(err)
		}
	}
}

// TestACPDirectoryMoved moves the project and continues in its new directory.
func TestACPDirectoryMoved(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "answer one"))
			c.say(e2erig.Prompt("beta", s.shell("echo 2 > a.txt"), "answer two"))
			c.hangUp()
			moved := filepath.Join(filepath.Dir(s.Rig.Project), "moved")
			if err := os.Rename(s.Rig.Project, moved); err != nil {
				t.Fatal(err)
			}
			s.Rig.Project = moved
			again := s.connect()
			again.begin("load", c.session, nil)
			again.say(e2erig.Prompt("gamma", s.shell("echo 3 > a.txt; pwd > pwd.txt"), "answer three"))
			again.hangUp()
			s.heard("gamma", []string{"alpha", "beta", "answer two"}, nil)
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			if got := s.ledger("pwd.txt"); !slices.Equal(got, []string{moved}) {
				t.Errorf("the agent works in %q", got)
			}
			s.Segno("undo", "2", "-y")
			if got := s.ledger("a.txt"); !slices.Equal(got, []string{"1"}) {
				t.Errorf("undo of two turns left %q", got)
			}
		})
	}
}

// TestACPClientComesBack restarts client, segno and agent, and continues with the same id. It also
// finds a session again that never had a prompt.
func TestACPClientComesBack(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		for _, method := range []string{"load", "resume"} {
			t.Run(string(agent)+"/"+method, func(t *testing.T) {
				s := newACPStage(t, agent, nil)
				c := s.open()
				c.hangUp()
				id := c.session
				for i, name := range []string{"alpha", "beta"} {
					c = s.connect()
					c.begin(method, id, nil)
					if c.session != id {
						t.Errorf("the client's id became %s", c.session)
					}
					if shown := c.shown(); method == "load" && i > 0 && !strings.Contains(shown, "answer to alpha") {
						t.Errorf("what was loaded shows %q", shown)
					}
					c.say(e2erig.Prompt(name, "answer to "+name))
					c.hangUp()
				}
				s.heard("beta", []string{"alpha", "answer to alpha"}, nil)
				s.checkTurns("t1 alpha", "t2 beta")
			})
		}
	}
}

// shown returns the content of all updates that the client has received so far.
func (c *chat) shown() string {
	var b strings.Builder
	for _, m := range c.Messages() {
		b.WriteString(m.Content())
	}
	return b.String()
}
