package acp_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestACPPause pauses the thread of an agent in the middle of a tool call. segno ends together with the agent's whole
// process group. The thread continues in the client, and on another machine from the archive.
func TestACPPause(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", "one"))
			if _, err := c.Prompt(c.session, e2erig.Prompt("beta", s.half(), "two")); err != nil {
				t.Fatal(err)
			}
			s.WaitFor("begun")
			group := c.agentPID()
			thread, archive := s.thread(), filepath.Join(t.TempDir(), "away.ckpt")
			s.Segno("generations", "pause", thread, "--grace", "0s", "-o", archive)
			if code, err := c.Wait(s.Ctx); code != 0 || err != nil {
				t.Errorf("segno acp exited with %d, %v", code, err)
			}
			s.groupEnds(group)
			s.Write("go", "")
			s.checkTurns("t1 alpha", "t2 beta")
			if err := os.Remove(s.Path("go")); err != nil {
				t.Fatal(err)
			}
			if out := s.Segno("generations", "wake", thread); !strings.Contains(out, c.session) {
				t.Errorf("wake printed %q", out)
			}
			again := s.connect()
			again.begin("load", c.session, nil)
			again.say(e2erig.Prompt("gamma", "three"))
			again.hangUp()
			s.heard("gamma", []string{"alpha", "beta", "echo half", "You were interrupted before you had finished"}, []string{"The user cancelled"})
			if n := count(s.ledger("ledger"), "half"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
			if !agent.IsCodex() {
				s.wakeElsewhere(archive)
			}
		})
	}
}

// thread returns the id of the newest thread.
func (s *acpStage) thread() (id string) {
	s.Helper()
	var threads []struct{ ID string }
	s.JSON(&threads, "threads")
	if len(threads) != 1 {
		s.Fatalf("the threads are %+v", threads)
	}
	return threads[0].ID
}

// wakeElsewhere wakes Claude Code from an archive, with another home and another store, and prompts it there.
func (s *acpStage) wakeElsewhere(archive string) {
	s.Helper()
	claude, err := agentrig.Install(s.Ctx, agentrig.ClaudeNewest)
	if err != nil {
		s.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(s.TempDir())
	if err != nil {
		s.Fatal(err)
	}
	env := slices.DeleteFunc(s.Rig.Env(), func(v string) bool {
		return strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "CLAUDE_CONFIG_DIR=")
	})
	cmd := exec.CommandContext(s.Ctx, s.Binary, "--store", filepath.Join(dir, "store"), "generations", "wake", archive, "--to", filepath.Join(dir, "agent"), "--trust-session", "--json")
	cmd.Dir, cmd.Env = dir, append(slices.Clone(env), "HOME="+filepath.Join(dir, "user"))
	out, err := cmd.Output()
	var woken struct {
		Dir     string
		Command []string
	}
	if err == nil {
		err = json.Unmarshal(out, &woken)
	}
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	i := slices.Index(woken.Command, "claude")
	if i < 0 {
		s.Fatalf("the command is %q", woken.Command)
	}
	woken.Command[i] = claude
	woken.Command = append(woken.Command, "-p", e2erig.Prompt("delta", "four"))
	agent := exec.CommandContext(s.Ctx, woken.Command[0], woken.Command[1:]...)
	agent.Dir, agent.Env = woken.Dir, env
	if out, err := agent.CombinedOutput(); err != nil || !strings.Contains(string(out), "four") {
		s.Fatalf("%q: %v: %s", woken.Command, err, out)
	}
	s.heard("delta", []string{"alpha", "beta", "echo half"}, []string{"gamma"})
	if data, err := os.ReadFile(filepath.Join(woken.Dir, "ledger")); string(data) != "half\n" || err != nil {
		s.Errorf("the files elsewhere have %q, %v", data, err)
	}
}
