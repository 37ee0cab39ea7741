package generation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/transcript/claude"
)

const sessionID = "0c5ab1f2-6a6e-4f0e-9d0a-1b2c3d4e5f60"

// conversation gives an agent a conversation in the format of Claude Code that grows with each turn.
func (r *rig) conversation(said func(turn int) string) {
	r.kind.session = func(p generation.Place) (segno.Transcript, segno.Source, error) {
		home := filepath.Join(p.Home(), ".claude")
		dir := filepath.Join(home, "projects", claude.Slug(p.Workspace()))
		path := filepath.Join(dir, sessionID+".jsonl")
		notes, _ := os.ReadFile(filepath.Join(p.Workspace(), "notes")) // none before the first turn
		var lines strings.Builder
		parent := "null"
		for turn := 1; turn <= strings.Count(string(notes), "turn"); turn++ {
			for i, role := range []string{"user", "assistant"} {
				id := fmt.Sprintf(`"00000000-0000-4000-8000-%012d"`, 2*turn+i)
				fmt.Fprintf(&lines, `{"type":%q,"uuid":%s,"parentUuid":%s,"sessionId":%q,"cwd":%q,"version":"2.1.330","timestamp":"2026-01-01T00:00:00.000Z",`+
					`"message":{"role":%q,"content":[{"type":"text","text":%q}]}}`+"\n", role, id, parent, sessionID, p.Workspace(), role, said(turn))
				parent = id
			}
		}
		t := claude.New(home, claude.Options{})
		if lines.Len() == 0 {
			return t, segno.Source{}, nil
		}
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(lines.String()), 0o600)
		}
		return t, segno.Source{Session: sessionID, Path: path, Dir: p.Workspace()}, err
	}
}

// TestConversations saves and resumes a conversation in the home of its agent.
func TestConversations(t *testing.T) {
	r := newRig(t)
	r.conversation(func(turn int) string { return fmt.Sprintf("turn %d", turn) })
	file := r.path("village-g001/agents/Ada/home/.claude/projects", claude.Slug(r.path("village-g001/agents/Ada/workspace")), sessionID+".jsonl")
	var before, after []byte
	r.kind.more = func(n int) string {
		switch n {
		case 3:
			before, _ = os.ReadFile(file) // without it, the next comparison would fail
			return "exit 1"
		case 4:
			after, _ = os.ReadFile(file)
		}
		return "true"
	}
	c := r.config(1, 3)
	c.Retries = 1
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(before) == 0 || string(before) != string(after) {
		t.Errorf("before the failure the conversation was\n%s\nand afterwards\n%s", before, after)
	}
	m := r.manifest("village-g001/checkpoints/gen001-t000003.ckpt")
	if a := m.Agents[0]; a.SessionID != sessionID || a.SessionFormat != "claude-code-v1" {
		t.Errorf("the agent in the archive is %+v", a)
	}
}

// TestSecretInConversation has a secret in the conversation. Archives lack only the conversation, and an event reports
// it.
func TestSecretInConversation(t *testing.T) {
	r := newRig(t)
	r.conversation(func(turn int) string {
		if turn == 2 {
			return "the key is " + secretText()
		}
		return "hello"
	})
	c := r.config(1, 3)
	if err := generation.New(c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "because of a secret: 2") {
		t.Fatalf("the error is %v", err)
	}
	omitted := r.find(generation.EventOmitted)
	if len(omitted) != 2 || omitted[0].Tick != 2 || !strings.Contains(omitted[0].Text, "agents/Ada/session") {
		t.Errorf("the events are %+v", omitted)
	}
	s, _, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil || s.SessionsOmitted != 2 || s.CheckpointFailures != 0 || s.Checkpoints != 3 {
		t.Errorf("the status is %+v, %v", s, err)
	}
	for tick, has := range []bool{true, false, false} {
		m := r.manifest("village-g001/checkpoints", fmt.Sprintf("gen001-t%06d.ckpt", tick+1))
		if got := len(m.Tree("Ada", "session")) > 0; got != has || m.World == nil || len(m.Tree("Ada", "workspace")) == 0 {
			t.Errorf("tick %d: the archive has %d files", tick+1, len(m.Entries))
		}
	}
}
