package acp_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// half returns a step whose command writes a line and the file "begun", waits for the
// file "go", and writes another line.
func (s *acpStage) half() map[string]any {
	return s.saidAnd("I run", "echo half >> ledger; touch begun; while [ ! -e go ]; do sleep 0.05; done; echo over >> ledger")
}

// TestACPCancel cancels a turn in the middle of a tool call. The turn ends as cancelled,
// exactly once, and the session continues.
func TestACPCancel(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", "one"))
			turn, err := c.Prompt(c.session, e2erig.Prompt("beta", s.half(), "two"))
			if err != nil {
				t.Fatal(err)
			}
			s.WaitFor("begun")
			if err := c.Cancel(c.session); err != nil {
				t.Fatal(err)
			}
			stop, err := turn.Stop(s.Ctx)
			s.Write("go", "")
			if err != nil || stop.Reason != "cancelled" {
				t.Errorf("the turn ended with %q, %v", stop.Reason, err)
			}
			c.say(e2erig.Prompt("gamma", "three"))
			c.hangUp()
			s.heard("gamma", []string{"alpha", "beta", "echo half"}, nil)
			ts := s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			if len(ts) == 3 && ts[2].Session != c.session {
				t.Errorf("the cancel cost the session: %+v", ts)
			}
		})
	}
}

// TestACPClientGone closes the client's side in the middle of a tool call. segno ends
// together with the agent's whole process group, and records the changes of the turn.
func TestACPClientGone(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", "one"))
			if _, err := c.Prompt(c.session, e2erig.Prompt("beta", s.half(), "two")); err != nil {
				t.Fatal(err)
			}
			s.WaitFor("begun")
			group := c.agentPID()
			begun := time.Now()
			if err := c.CloseStdin(); err != nil {
				t.Fatal(err)
			}
			if code, err := c.Wait(s.Ctx); code != 0 || err != nil {
				t.Errorf("segno acp exited with %d, %v", code, err)
			}
			if took := time.Since(begun); took > 25*time.Second {
				t.Errorf("it took %v", took)
			}
			s.groupEnds(group)
			s.Write("go", "")
			ts := s.checkTurns("t1 alpha", "t2 beta")
			if len(ts) == 2 && ts[1].Files.Added == 0 {
				t.Errorf("t2 is %+v", ts[1])
			}
			again := s.connect()
			again.begin("load", c.session, nil)
			again.say(e2erig.Prompt("gamma", "three"))
			again.hangUp()
			s.heard("gamma", []string{"alpha", "beta", "echo half"}, nil)
			if n := count(s.ledger("ledger"), "half"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}

// groupEnds waits until no process of a process group runs.
func (s *acpStage) groupEnds(group int) {
	s.Helper()
	s.Poll("the agent's group to end", func() bool {
		return len(agentrig.SystemProcesses(s.T, func(p agentrig.SystemProcess) bool { return p.Group == group && p.State != "Z" })) == 0
	})
}

// TestACPSegnoKilled kills segno itself in the middle of a tool call. The next segno
// process closes the turn as interrupted and continues.
func TestACPSegnoKilled(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", "one"))
			if _, err := c.Prompt(c.session, e2erig.Prompt("beta", s.half(), "two")); err != nil {
				t.Fatal(err)
			}
			s.WaitFor("begun")
			c.KillOne()
			if _, err := c.Wait(s.Ctx); err != nil {
				t.Fatal(err)
			}
			again := s.connect()
			again.begin("resume", c.session, nil)
			s.Write("go", "")
			again.say(e2erig.Prompt("gamma", "three"))
			again.hangUp()
			s.heard("gamma", []string{"alpha", "beta", "echo half"}, nil)
			if n := count(s.ledger("ledger"), "half"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
			ts := s.checkTurns("t1 alpha", "t2 beta", "t3 gamma")
			if len(ts) == 3 && (!ts[1].Interrupted || ts[2].Interrupted) {
				t.Errorf("the turns are %+v", ts)
			}
		})
	}
}

// TestACPLoadAfterAKill kills segno in the middle of a tool call. A load replays the part of
// the turn that the client had received, exactly once, and gives its call a final status.
func TestACPLoadAfterAKill(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
			c := s.open()
			c.say(e2erig.Prompt("alpha", "answer to alpha"))
			turn, err := c.Prompt(c.session, e2erig.Prompt("beta", s.half(), "two"))
			if err != nil {
				t.Fatal(err)
			}
			s.WaitFor("begun")
			if _, err := turn.Await(s.Ctx, func(m acptest.Received) bool { return m.Update() == "tool_call" }); err != nil {
				t.Fatal(err)
			}
			c.KillOne()
			if _, err := c.Wait(s.Ctx); err != nil {
				t.Fatal(err)
			}
			again := s.connect()
			again.begin("load", c.session, nil)
			got := said(again)
			for _, once := range []string{"answer to alpha", "I run"} {
				if n := strings.Count(got, once); n != 1 {
					t.Errorf("the load shows %q %d times: %q", once, n, got)
				}
			}
			status := map[string]string{}
			for _, m := range again.Messages() {
				if now := m.Text(m.Find(m.Params, "update", "status")); strings.HasPrefix(m.Update(), "tool_call") && now != "" {
					status[m.Text(m.Find(m.Params, "update", "toolCallId"))] = now
				}
			}
			if len(status) != 1 {
				t.Errorf("the load shows the calls %v", status)
			}
			for id, now := range status {
				if now != "failed" && now != "completed" {
					t.Errorf("the call %s is %s", id, now)
				}
			}
			s.Write("go", "")
			again.say(e2erig.Prompt("gamma", "three"))
			again.hangUp()
			s.heard("gamma", []string{"alpha", "beta", "echo half"}, nil)
		})
	}
}

// TestACPSettingsSurvive chooses a model and loses the session. segno then makes the same
// choice in the new session.
func TestACPSettingsSurvive(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s := newACPStage(t, agent, nil)
			c := s.open()
			model := "haiku"
			if agent.IsCodex() {
				model = "gpt-5.5"
			}
			if _, err := c.Call(s.Ctx, "session/set_config_option", map[string]any{"sessionId": c.session, "configId": "model", "value": model}); err != nil {
				t.Fatal(err)
			}
			c.say(e2erig.Prompt("alpha", "one"))
			c.hangUp()
			chosen := s.CallFor("alpha").Model
			if !strings.Contains(chosen, model) {
				t.Fatalf("the model is %s", chosen)
			}
			again := s.connect()
			again.begin("resume", c.session, nil)
			again.say(e2erig.Prompt("beta", "two"))
			again.hangUp()
			s.deleteTranscripts()
			last := s.connect()
			last.begin("load", c.session, nil)
			last.say(e2erig.Prompt("gamma", "three"))
			last.hangUp()
			for _, name := range []string{"beta", "gamma"} {
				if got := s.CallFor(name).Model; got != chosen {
					t.Errorf("%s went to %s, not to %s", name, got, chosen)
				}
			}
		})
	}
}

// TestACPNoSessionSupport continues with an agent that can neither load nor resume. The client receives
// its conversation again, and the agent receives a preamble.
func TestACPNoSessionSupport(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	s := newACPStage(t, agentrig.GoExample, nil)
	near, far := t.TempDir(), t.TempDir()
	c := s.connectTo(s.tapped(near, s.behind(s.tapped(far, s.agent.Command...)...)...)...)
	c.begin("new", "", nil)
	said := c.say("alpha, please")
	c.hangUp()
	compareTaps(t, near, far)

	again := s.connectTo(s.behind(s.tapped(far, s.agent.Command...)...)...)
	again.begin("load", c.session, nil)
	if shown := again.shown(); !strings.Contains(shown, "alpha, please") || !strings.Contains(shown, said[len(said)-40:]) {
		t.Errorf("loading shows %q", shown)
	}
	again.say("beta, please")
	again.lists(c.session)
	again.hangUp()
	prompts := sentPrompts(t, far)
	if len(prompts) != 2 || prompts[0].SessionID() != c.session || prompts[1].SessionID() == c.session {
		t.Fatalf("the agent was sent %d prompts, the first of %s", len(prompts), prompts[0].SessionID())
	}
	for _, text := range []string{"alpha, please", "/project/config.json", "beta, please"} {
		if !bytes.Contains(prompts[1].Line, []byte(text)) {
			t.Errorf("the agent is not told %q: %s", text, prompts[1].Line)
		}
	}
	ts := s.checkTurns("t1 alpha,", "t2 beta,")
	if len(ts) == 2 && slices.Contains([]string{"", ts[0].Session}, ts[1].Session) {
		t.Errorf("the turns are %+v", ts)
	}
}

// sentPrompts returns the prompts that a tap recorded between segno and the agent.
func sentPrompts(t *testing.T, dir string) (prompts []acp.Message) {
	t.Helper()
	in, _, err := acptest.Tapped(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range lines(t, in) {
		if m.MethodName() == "session/prompt" {
			prompts = append(prompts, m)
		}
	}
	return prompts
}
