package proxy_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// openCalls returns the calls that the client received since a place and that have no final status, and the number of
// all received calls.
func openCalls(c *acptest.Client, from int) (open []string, all int) {
	status := map[string]string{}
	for _, m := range c.Messages()[from:] {
		if !strings.HasPrefix(m.Update(), "tool_call") {
			continue
		}
		id, now := m.Text(m.Find(m.Params, "update", "toolCallId")), m.Text(m.Find(m.Params, "update", "status"))
		if status[id] == "" || now != "" {
			status[id] = now
		}
	}
	for id, now := range status {
		if now != "completed" && now != "failed" {
			open = append(open, id+" "+now)
		}
	}
	return open, len(status)
}

// announce returns a step that announces a call and does not report its end.
func announce(id string) acptest.Step {
	return acptest.Step{Raw: json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"look","kind":"read","status":"in_progress"}`)}
}

// TestEveryCallGetsFinalStatus checks that each call that the client received gets a final status before the prompt's
// answer, and in a load, for every way in which the turn can end.
func TestEveryCallGetsFinalStatus(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	t.Parallel()
	cases := map[string]struct {
		steps  []acptest.Step
		cancel bool
	}{
		"without a result": {steps: []acptest.Step{announce("c1"), announce("c2"), acptest.Do("one"), acptest.Say("done")}},
		"refused":          {steps: []acptest.Step{announce("c1"), {End: "refusal"}}},
		"cancel":           {steps: []acptest.Step{announce("c1"), acptest.Say("on it"), {Hang: true}}, cancel: true},
		"death once":       {steps: []acptest.Step{announce("c1"), {Tool: "ledger", Line: "one", Strike: "intent", Times: 1}, acptest.Say("done")}},
		"death each time":  {steps: []acptest.Step{announce("c1"), {Kill: true}}},
		"error":            {steps: []acptest.Step{announce("c1"), {Error: json.RawMessage(`{"code":-32603,"message":"x","data":{"errorKind":"rate_limit"}}`)}}},
	}
	for name, agent := range kinds() {
		for what, tc := range cases {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, agent)
				c, s := r.session()
				turn := r.prompt(c, s, "alpha "+acptest.Directive(tc.steps...))
				if tc.cancel {
					r.says(turn, "on it")
					if err := c.Cancel(s); err != nil {
						t.Fatal(err)
					}
				}
				_, _ = turn.Stop(r.ctx) // this test does not check the stop reason
				if open, all := openCalls(c, 0); len(open) > 0 || all == 0 {
					t.Errorf("of %d calls these have no final status: %v", all, open)
				}
				c = r.comeBack(c, "load", s)
				if open, all := openCalls(c, 0); len(open) > 0 || all == 0 {
					t.Errorf("in a load, of %d calls these have no final status: %v", all, open)
				}
			})
		}
	}
}

// TestCallOutsideTurn checks that a call outside a turn ends when its agent does.
func TestCallOutsideTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c := r.start(acptest.ClientOptions{}, "", "sh", "-c", `
		read l; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
		read l; echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}'
		echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c1","title":"x"}}}'`)
	if _, err := c.Initialize(r.ctx, nil); err != nil {
		t.Fatal(err)
	}
	r.open(c, "new", "")
	if _, err := c.Await(r.ctx, 0, func(m acptest.Received) bool { return m.Text(m.Find(m.Params, "update", "status")) == "failed" }); err != nil {
		t.Error(err)
	}
}

// spooled waits until an open turn in the spool contains a text.
func (r *rig) spooled(text string) {
	r.Helper()
	r.until(text+" in the spool", func() bool {
		found := false
		_ = filepath.WalkDir(r.data(), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".jsonl") {
				data, _ := os.ReadFile(path) // the file may be gone
				found = found || strings.Contains(string(data), text)
			}
			return nil
		})
		return found
	})
}

// TestPartialAnswerSurvivesKill kills segno in a turn. A load shows everything that the client had received, although
// the agent did not write it: once, in order, and with every call ended.
func TestPartialAnswerSurvivesKill(t *testing.T) {
	t.Parallel()
	part := func(text string) acptest.Step {
		return acptest.Step{Raw: json.RawMessage(`{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"` + text + `"}}`)}
	}
	for name, agent := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			c, s := r.session()
			r.say(c, s, "alpha")
			turn := r.prompt(c, s, "beta "+acptest.Directive(acptest.Say("written"), announce("c1"), part("half of "), part("the answer"), acptest.Step{Hang: true}))
			r.says(turn, "the answer")
			r.spooled("half of the answer")
			c.KillOne()
			<-c.Exited()
			c = r.client()
			r.open(c, "load", s)
			got := strings.Join(shown(c, 0), "\n")
			for _, once := range []string{"user_message_chunk alpha", "said-alpha", "user_message_chunk beta", "agent_message_chunk written", "agent_message_chunk half of the answer"} {
				if n := strings.Count(got, once); n != 1 && once != "said-alpha" {
					t.Errorf("%q is shown %d times:\n%s", once, n, got)
				}
			}
			if open, all := openCalls(c, 0); len(open) > 0 || all == 0 {
				t.Errorf("of %d calls these have no final status: %v", all, open)
			}
			ids := map[string]string{}
			for _, m := range c.Messages() {
				id := m.Text(m.Find(m.Params, "update", "messageId"))
				if before, twice := ids[id]; m.Update() == "agent_message_chunk" && (id == "" || twice) {
					t.Errorf("%q and %q have the id %q", before, m.Content(), id)
				}
				ids[id] = m.Content()
			}
			r.say(c, s, "gamma")
			r.wantSeen([]string{"alpha", "gamma"})
		})
	}
}

// TestLoadOfSessionThatLostTurns checks that segno shows lost turns from the record, although the agent reports
// success.
func TestLoadOfSessionThatLostTurns(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]int{"all": 1, "some": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, acptest.Full)
			c, s := r.session()
			r.say(c, s, "alpha")
			r.say(c, s, "beta")
			r.leave(c)
			file := filepath.Join(r.agent.Dir, "sessions", s+".jsonl")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kept := strings.Join(strings.SplitAfterN(string(data), "\n", lines+1)[:lines], "")
			if err := os.WriteFile(file, []byte(kept), 0o600); err != nil {
				t.Fatal(err)
			}
			c = r.client()
			r.open(c, "load", s)
			got := strings.Join(shown(c, 0), "\n")
			for _, once := range []string{"user_message_chunk alpha", "agent_message_chunk said-alpha", "user_message_chunk beta", "agent_message_chunk said-beta"} {
				if n := strings.Count(got, once); n != 1 {
					t.Errorf("%q is shown %d times:\n%s", once, n, got)
				}
			}
			r.say(c, s, "gamma")
			r.wantSeen([]string{"alpha", "beta", "gamma"})
		})
	}
}

// TestCallThatEndsInLaterTurn uses an agent that reports the end of a call in the next turn. The result belongs to the
// call: in the record, in the summary for a new session and in a load.
func TestCallThatEndsInLaterTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	c, s := r.session()
	raw := func(update map[string]any) acptest.Step { return acptest.Step{Raw: acp.Encode(update)} }
	r.turn(c, s, "alpha "+acptest.Directive(raw(map[string]any{"sessionUpdate": "tool_call", "toolCallId": "bg", "title": "serve", "kind": "execute",
		"status": "in_progress", "rawInput": map[string]string{"command": "serve"}}), acptest.Say("it runs")))
	r.turn(c, s, "beta "+acptest.Directive(raw(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "bg", "status": "completed",
		"content": []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": "served"}}}}), acptest.Say("done")))
	c = r.comeBack(c, "load", s)
	var updates []string
	for _, m := range c.Messages() {
		if m.Update() == "tool_call" || m.Update() == "tool_call_update" {
			updates = append(updates, m.Update()+" "+m.Text(m.Find(m.Params, "update", "title"))+" "+m.Text(m.Find(m.Params, "update", "status")))
		}
	}
	if got := strings.Join(updates, ", "); got != "tool_call serve pending, tool_call_update  completed" {
		t.Errorf("a load shows %q", got)
	}
	r.say(c, s, "gamma")
	r.wantSeen([]string{"- You ran “serve”. It answered “served”."}, "its outcome is unknown", "something")
}
