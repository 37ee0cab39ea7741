package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/timeline"
)

// TestOtherFilesOfASessionAreKeptAgain keeps a session, and again after a subagent has continued. The subagent writes only to its own
// transcript. The agent then deletes this transcript, and later the session. The session is written back with all that the subagent
// wrote.
func TestOtherFilesOfASessionAreKeptAgain(t *testing.T) {
	ctx := t.Context()
	p := writeOldSessions(t, 1, 2)
	store, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	subagent := filepath.Join(filepath.Dir(pathOf(p, 0)), sessionID(0), "subagents", "agent-1.jsonl")
	if err := os.MkdirAll(filepath.Dir(subagent), 0o700); err != nil {
		t.Fatal(err)
	}
	var kept []timeline.Kept
	for _, text := range []string{"{}\n", "{}\n{}\n", "{}\n{}\n"} {
		if err := os.WriteFile(subagent, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := store.SessionTimeline().KeepSession(ctx, requestFor(0))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, k)
	}
	if kept[1].Stored == 0 || kept[2].Stored != 0 {
		t.Errorf("what the subagent wrote was not kept once: %+v", kept)
	}
	if err := os.Remove(subagent); err != nil {
		t.Fatal(err)
	}
	if k, err := store.SessionTimeline().KeepSession(ctx, requestFor(0)); err != nil || k.Stored != 0 {
		t.Errorf("the session without its other file was kept: %+v, %v", k, err)
	}
	if err := os.RemoveAll(filepath.Join(p.Homes["claude"], "projects")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.SessionTimeline().ResumeSession(ctx, requestFor(0), "/srv/project-0"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(subagent); err != nil || string(got) != "{}\n{}\n" {
		t.Errorf("the transcript of the subagent is %q, %v", got, err)
	}
}

// TestAllSessionsAreKeptWithTheirOtherFiles keeps all sessions, and again after a subagent of one has continued. Its transcript alone
// grew.
func TestAllSessionsAreKeptWithTheirOtherFiles(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	subagent := filepath.Join(filepath.Dir(pathOf(p, 3)), sessionID(3), "subagents", "agent-1.jsonl")
	if err := os.MkdirAll(filepath.Dir(subagent), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{manySessions, 1, 0, 1, 0} {
		if i != 2 && i != 4 {
			if err := os.WriteFile(subagent, []byte(strings.Repeat("{}\n", i+1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		compared := 0
		if _, err := keepChanged(t.Context(), p, func(timeline.KeepRequest) { compared++ }); err != nil || compared != want {
			t.Errorf("keep %d compared %d sessions, want %d (%v)", i+1, compared, want, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(p.Homes["claude"], "projects")); err != nil {
		t.Fatal(err)
	}
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.SessionTimeline().ResumeSession(t.Context(), requestFor(3), "/srv/project-3"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(subagent); err != nil || string(got) != strings.Repeat("{}\n", 4) {
		t.Errorf("the transcript of the subagent is %q, %v", got, err)
	}
}
