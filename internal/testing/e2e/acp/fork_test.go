package acp_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// fourTurns runs a conversation of four turns that each set a.txt.
func fourTurns(t *testing.T, agent agentrig.ACPAgent) (*acpStage, *chat) {
	s := newACPStage(t, agent, map[string]string{"a.txt": "0\n"})
	c := s.open()
	for i, name := range []string{"alpha", "beta", "gamma", "delta"} {
		c.say(e2erig.Prompt(name, s.shell("echo "+string(rune('1'+i))+" > a.txt"), "answer to "+name))
	}
	return s, c
}

// TestACPFork forks at turn 2 of 4, beside the original, and continues both.
func TestACPFork(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest}, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s, c := fourTurns(t, agent)
			before := e2erig.Conversation(s.CallFor("gamma"))
			original := *c
			at := map[string]any{"segno": map[string]any{"at": "t2"}}
			if agent == agentrig.ClaudeACPOldest { // this version does not know the field, and would fork at the head
				at = map[string]any{"jetbrains": map[string]any{"air": map[string]any{"fork": map[string]any{"version": 1, "messageId": c.messageOf("answer to beta")}}}}
			}
			r := c.begin("fork", c.session, map[string]any{"_meta": at})
			var ours struct{ Fidelity, Thread string }
			metaSegno(t, r, &ours)
			if c.session == original.session || ours.Fidelity == "" || ours.Thread == "" {
				t.Errorf("the fork is %s, %+v", c.session, ours)
			}
			c.say(e2erig.Prompt("omicron", "answer to omicron"))
			original.say(e2erig.Prompt("epsilon", "answer to epsilon"))
			c.hangUp()
			s.heard("omicron", []string{"alpha", "beta", "answer to beta"}, []string{"gamma", "delta"})
			s.heard("epsilon", []string{"alpha", "beta", "gamma", "delta"}, []string{"omicron"})
			got := e2erig.Conversation(s.CallFor("omicron"))
			if diff := cmp.Diff(before[:len(before)-1], got[:min(len(got), len(before)-1)]); diff != "" {
				t.Errorf("what the fork's model was sent before its own prompt (-want +got):\n%s", diff)
			}
			var ts []string
			for _, c := range s.Turns("--thread", ours.Thread) {
				word, _, _ := strings.Cut(c.Prompt, " ")
				ts = append(ts, word)
			}
			if !slices.Equal(ts, []string{"alpha", "beta", "omicron"}) {
				t.Errorf("the fork's turns are %q", ts)
			}
		})
	}
}

// messageOf returns the id of the agent's message with a text.
func (c *chat) messageOf(text string) string {
	c.s.Helper()
	for _, m := range c.Messages() {
		if m.Content() == text {
			return m.Text(m.Find(m.Params, "update", "messageId"))
		}
	}
	c.s.Fatalf("the agent never said %q", text)
	return ""
}

// TestACPForkElsewhere forks into another directory, which first gets the files of that
// turn, and in place, where the client keeps its id.
func TestACPForkElsewhere(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.CodexACPNewest}, agentrig.CodexACPOldest, agentrig.ClaudeACPNewest, agentrig.ClaudeACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s, c := fourTurns(t, agent)
			dir := filepath.Join(filepath.Dir(s.Rig.Project), "elsewhere")
			side := *c
			side.begin("fork", c.session, map[string]any{"cwd": dir, "_meta": map[string]any{"segno": map[string]any{"at": "t2"}}})
			side.say(e2erig.Prompt("omicron", s.shell("cat a.txt > seen.txt; pwd >> seen.txt; echo 9 > a.txt"), "answer to omicron"))
			seen, err := os.ReadFile(filepath.Join(dir, "seen.txt"))
			if err != nil || string(seen) != "2\n"+dir+"\n" {
				t.Errorf("the fork found %q, %v", seen, err)
			}
			if got := s.ledger("a.txt"); !slices.Equal(got, []string{"4"}) {
				t.Errorf("the source's file holds %q", got)
			}
			s.heard("omicron", []string{"beta", "answer to beta"}, []string{"gamma", "answer to delta"})

			if said := c.say("/fork upsilon"); !strings.Contains(said, "fork") {
				t.Errorf("/fork said %q", said)
			}
			c.say(e2erig.Prompt("lambda", "answer to lambda"))
			c.hangUp()
			s.heard("lambda", []string{"alpha", "answer to delta"}, []string{"omicron"})
			var threads []struct{ ID string }
			s.JSON(&threads, "threads", "--all")
			if len(threads) != 3 {
				t.Errorf("%d threads, want three", len(threads))
			}
			again := s.connect()
			again.begin("resume", c.session, nil)
			again.say(e2erig.Prompt("sigma", "answer to sigma"))
			again.hangUp()
			s.heard("sigma", []string{"answer to delta", "answer to lambda"}, []string{"omicron"})
		})
	}
}

// TestACPEdit sends turn 1 again with another text. Files and conversation go back
// together, and the old line stays.
func TestACPEdit(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s, c := fourTurns(t, agent)
			said := c.say("/edit 1 " + e2erig.Prompt("omega", s.shell("cat a.txt > seen.txt; echo 9 > a.txt"), "answer to omega"))
			if !strings.Contains(said, "answer to omega") {
				t.Errorf("the agent said %q", said)
			}
			if got := s.ledger("seen.txt"); !slices.Equal(got, []string{"0"}) {
				t.Errorf("the edited turn found %q", got)
			}
			c.say(e2erig.Prompt("lambda", "answer to lambda"))
			c.hangUp()
			s.heard("omega", nil, []string{"alpha", "beta", "delta"})
			s.heard("lambda", []string{"omega", "answer to omega"}, []string{"alpha", "beta"})
			ts := s.Turns()
			if len(ts) != 6 || ts[4].Turn != 5 || ts[5].Parent == nil || *ts[5].Parent != ts[4].ID {
				t.Errorf("the turns are %+v", ts)
			}
		})
	}
}

// TestACPUndo undoes turns in the client, and in a terminal while the client is open. The
// conversation follows at the next prompt.
func TestACPUndo(t *testing.T) {
	t.Parallel()
	for _, agent := range e2erig.Cases(t, []agentrig.ACPAgent{agentrig.ClaudeACPNewest}, agentrig.ClaudeACPOldest, agentrig.CodexACPNewest, agentrig.CodexACPOldest) {
		t.Run(string(agent), func(t *testing.T) {
			s, c := fourTurns(t, agent)
			if said := c.say("/undo"); !strings.Contains(said, "t3") {
				t.Errorf("/undo said %q", said)
			}
			if got := s.ledger("a.txt"); !slices.Equal(got, []string{"3"}) {
				t.Errorf("/undo left %q", got)
			}
			c.say(e2erig.Prompt("epsilon", "answer to epsilon"))
			s.heard("epsilon", []string{"gamma", "answer to gamma"}, []string{"delta"})
			s.Segno("undo", "2", "-y")
			if got := s.ledger("a.txt"); !slices.Equal(got, []string{"2"}) {
				t.Errorf("undo in the terminal left %q", got)
			}
			c.say(e2erig.Prompt("zeta", "answer to zeta"))
			s.heard("zeta", []string{"beta", "answer to beta"}, []string{"gamma", "delta", "epsilon"})
			if said := c.say("/restore t4"); !strings.Contains(said, "t4") {
				t.Errorf("/restore said %q", said)
			}
			if got := s.ledger("a.txt"); !slices.Equal(got, []string{"4"}) {
				t.Errorf("/restore left %q", got)
			}
			c.say(e2erig.Prompt("eta", "answer to eta"))
			s.heard("eta", []string{"gamma", "delta", "answer to delta"}, []string{"epsilon", "zeta"})
			if said := c.say("/checkpoints"); !strings.Contains(said, "t7") {
				t.Errorf("/checkpoints said %q", said)
			}
			c.hangUp()
			var threads []struct{ ID string }
			s.JSON(&threads, "threads")
			if len(threads) != 1 {
				t.Errorf("%d threads", len(threads))
			}
		})
	}
}
