package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/transcript/claude"
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

// TestASessionWithoutATurnNeedsNoThread lists the sessions of Claude Code without a thread. After /clear a session has only the record of this
// command, and after /branch only copied records, until the user prompts the agent.
func TestASessionWithoutATurnNeedsNoThread(t *testing.T) {
	const turns = 100 // more than a header reads
	p := writeSessions(t, 4, turns)
	for i, edit := range []func(text, id string) string{
		func(_, id string) string {
			return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"<command-name>/clear</command-name>"},"uuid":"c","cwd":"/srv/project-0","sessionId":%q,"version":"2.1.197"}`+"\n", id)
		},
		copied,
		func(text, id string) string {
			own := strings.ReplaceAll(transcriptOf(id, "/srv/project-2", turns+1)[len(text):], sessionID(2)+"-", "own-")
			return copied(text, id) + own
		},
	} {
		name := filepath.Join(p.Homes["claude"], "projects", claude.Slug(fmt.Sprintf("/srv/project-%d", i)), sessionID(i)+".jsonl")
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, []byte(edit(string(text), sessionID(i))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got := withoutThread(t, p, "claude")
	if want := []string{sessionID(2), sessionID(3)}; !slices.Equal(got, want) {
		t.Errorf("without a thread are %v, want %v", got, want)
	}
}

// withoutThread returns the sessions of an agent that have no thread.
func withoutThread(t *testing.T, p local.Place, agent string) (ids []string) {
	t.Helper()
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	found, err := store.WithoutThread(t.Context(), agent, "/srv", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		ids = append(ids, string(d.Session))
	}
	slices.Sort(ids)
	return ids
}

// copied marks all records of a session as copies of another session's.
func copied(text, id string) string {
	return strings.ReplaceAll(text, `"sessionId":"`+id+`"`, `"sessionId":"`+id+`","forkedFrom":{"sessionId":"other","messageUuid":"u"}`)
}

// TestASubagentNeedsNoThread lists the sessions of Codex without a thread. A review by Codex and a subagent have sessions, but no turns: their
// work is a part of a turn of another session.
func TestASubagentNeedsNoThread(t *testing.T) {
	dir := t.TempDir()
	p := local.Place{Store: filepath.Join(dir, "store"), UserHome: dir, Homes: local.Homes{"codex": filepath.Join(dir, "codex")}, Now: time.Now}
	day := filepath.Join(dir, "codex", "sessions", "2026", "11", "20")
	if err := os.MkdirAll(day, 0o700); err != nil {
		t.Fatal(err)
	}
	const user = `"cli"`
	for i, source := range []string{user, `{"subagent":"review"}`, `{"subagent":{"thread_spawn":{"parent_thread_id":"x","depth":1}}}`} {
		id := sessionID(i)
		lines := fmt.Sprintf(`{"timestamp":"2026-11-20T12:08:11.000Z","type":"session_meta","payload":{"id":%q,"timestamp":"2026-11-20T12:08:11.000Z","cwd":"/srv/proj","source":%s}}
{"timestamp":"2026-11-20T12:08:12.000Z","type":"event_msg","payload":{"type":"user_message","message":"hello"}}
{"timestamp":"2026-11-20T12:08:13.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[]}}
`, id, source)
		if err := os.WriteFile(filepath.Join(day, "rollout-2026-11-20T12-08-11-"+id+".jsonl"), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := withoutThread(t, p, "codex"); !slices.Equal(got, []string{sessionID(0)}) {
		t.Errorf("without a thread are %v, want only the session of the user", got)
	}
}
