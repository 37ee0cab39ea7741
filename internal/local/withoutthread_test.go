package local_test

import (
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// TestWithoutThread lists the sessions of Claude Code without a thread. The proxy recorded the turns of one under a name that only ACP
// uses, and the list leaves that one out. A session of another agent with the same id does not count.
func TestWithoutThread(t *testing.T) {
	ctx := t.Context()
	p := writeSessions(t, 3, 1)
	store, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, agent := range []string{"Claude over ACP", "codex"} {
		id, session := segno.ThreadID(agent), segno.SessionID(sessionID(i))
		if _, err := store.Commit(ctx, segno.Commit{ID: segno.CommitID(agent), Thread: id, Create: &segno.Thread{ID: id, Agent: agent},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Agent: agent, Session: &segno.Position{Agent: agent, Session: session}},
			Link:       &segno.Link{Agent: agent, Session: session, Start: p.Now(), Reason: "startup"}}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := store.WithoutThread(ctx, "claude", "/srv", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[segno.SessionID]bool{}
	for _, d := range found {
		got[d.Session] = true
	}
	for i, want := range []bool{false, true, true} {
		if id := segno.SessionID(sessionID(i)); got[id] != want {
			t.Errorf("session %d has no thread: %v, want %v", i, got[id], want)
		}
	}
}
