package acp_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACPIsByteForByte runs a conversation through segno with a tap on each side, and compares
// segno's input with its output. They may differ only in the parts that segno intends to change.
func TestACPIsByteForByte(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest, agentrig.CodexACPNewest}, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			near, far := t.TempDir(), t.TempDir()
			c := s.connectTo(s.tapped(near, s.behind(s.tapped(far, s.agent.Command...)...)...)...)
			c.begin("new", "", nil)
			c.say(e2erig.Prompt("alpha <b>&\u2028", s.saidAnd("I write", "echo 1 > a.txt; echo done"), "one"))
			c.say(e2erig.Prompt("beta", s.shell("echo 2 >> a.txt; false"), "two"))
			c.say("gamma")
			c.hangUp()
			compareTaps(t, near, far)
			ts := s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			for _, c := range ts {
				if c.Session == "" || c.Snapshot == "" || c.Interrupted {
					t.Errorf("t%d is %+v", c.Turn, c)
				}
			}
			if f := ts[0].Files; f.Modified != 1 || f.Added != 0 {
				t.Errorf("t1 changed %+v", f)
			}
			if show := s.Segno("show", "t2"); !strings.Contains(show, "echo 2 >> a.txt") {
				t.Errorf("show t2 says\n%s", show)
			}
		})
	}
}

// tapped returns a command behind a tap that logs to dir.
func (s *acpStage) tapped(dir string, command ...string) []string {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	return append([]string{self}, acptest.TapArgs(dir, command...)...)
}

// compareTaps compares both directions of two taps, one near the client and one near the agent.
func compareTaps(t *testing.T, near, far string) {
	t.Helper()
	nearIn, nearOut, err := acptest.Tapped(near)
	if err != nil {
		t.Fatal(err)
	}
	farIn, farOut, err := acptest.Tapped(far)
	if err != nil {
		t.Fatal(err)
	}
	compareLines(t, "to the agent", lines(t, nearIn), lines(t, farIn))
	said, heard := lines(t, farOut), lines(t, nearOut)
	heard = slices.DeleteFunc(heard, func(m acp.Message) bool {
		return isFromSegno(m) && !slices.ContainsFunc(said, func(of acp.Message) bool { return inserted(of.Line, m.Line) })
	})
	compareLines(t, "to the client", said, heard)
}

func updateOf(m acp.Message) string { return m.Text(m.Find(m.Params, "update", "sessionUpdate")) }

// isFromSegno reports whether segno may have created a message.
func isFromSegno(m acp.Message) bool { return updateOf(m) == "available_commands_update" }

func compareLines(t *testing.T, which string, sent, arrived []acp.Message) {
	t.Helper()
	for i, m := range sent {
		if i >= len(arrived) {
			t.Fatalf("%s: %d messages of %d arrived; the first that did not: %.300s", which, len(arrived), len(sent), m.Line)
		}
		got := arrived[i]
		changes := updateOf(m) == "available_commands_update" || !m.Find(m.Result, "agentCapabilities").IsZero()
		if load := m.Find(m.Result, "agentCapabilities", "loadSession"); string(load.Of(m.Line)) == "false" {
			m.Line = m.Splice(acp.Edit{At: load, With: []byte("true")})
		}
		if string(m.Line) != string(got.Line) && !(changes && inserted(m.Line, got.Line)) {
			t.Fatalf("%s: message %d\n%.600s\narrived as\n%.600s", which, i, m.Line, got.Line)
		}
	}
	if len(arrived) > len(sent) {
		t.Errorf("%s: nobody sent %.300s", which, arrived[len(sent)].Line)
	}
}

// inserted reports whether b is a with bytes inserted at a few places.
func inserted(a, b []byte) bool {
	i := 0
	for _, c := range b {
		if i < len(a) && a[i] == c {
			i++
		}
	}
	return i == len(a)
}

// TestACPX drives an agent behind segno with a client by another vendor, in one process and over
// several processes.
func TestACPX(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			command := strings.Join(s.behind(s.agent.Command...), " ")
			s.acpx(command, "exec", e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "answer one"))
			s.checkTurns("t1 alpha")
			s.acpx(command, "--ttl", "1", "sessions", "new")
			for _, name := range []string{"beta", "gamma"} {
				if out := s.acpx(command, "--ttl", "1", "prompt", e2erig.Prompt(name, "answer to "+name)); !strings.Contains(out, "answer to "+name) {
					t.Errorf("acpx says %s", out)
				}
				s.Quiet()
			}
			s.checkTurns("t1 beta", "t2 gamma")
			s.heard("gamma", []string{"beta", "answer to beta"}, []string{"alpha"})
		})
	}
}

// acpx runs acpx and returns its output. The background process of acpx refuses a prompt while it
// ends; this method then repeats the prompt.
func (s *acpStage) acpx(command string, args ...string) string {
	s.Helper()
	for {
		cmd, err := s.agent.ACPX(s.Ctx, command, args...)
		if err != nil {
			s.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err == nil {
			return string(out)
		}
		if !strings.Contains(string(out), "is shutting down") || s.Ctx.Err() != nil {
			s.Fatalf("acpx %q: %v\n%s", args, err, out)
		}
	}
}

// TestACPHooksToo also enables the agent's hooks. The process that holds the session's lease
// records every turn, and only once.
func TestACPHooksToo(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			s.Segno("enable", "claude")
			c := s.open()
			c.say(e2erig.Prompt("alpha", s.shell("echo 1 > a.txt"), "one"))
			c.say(e2erig.Prompt("beta", s.shell("echo 2 > a.txt"), "two"))
			c.hangUp()
			s.checkTurns("t1 alpha", "t2 beta")
			again := s.connect()
			again.begin("resume", c.session, nil)
			again.say(e2erig.Prompt("gamma", "three"))
			again.hangUp()
			s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			var threads []struct{ ID string }
			s.JSON(&threads, "threads")
			if len(threads) != 1 {
				t.Errorf("%d threads", len(threads))
			}
			if n := strings.Count(s.Segno("show", "t1"), "echo 1 > a.txt"); n != 1 {
				t.Errorf("t1 has its command %d times:\n%s", n, s.Segno("show", "t1"))
			}
			if _, err := os.Stat(filepath.Join(s.Store, "hook.log")); err == nil {
				t.Error("a hook had something to say")
			}
		})
	}
}
