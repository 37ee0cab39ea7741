package local_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

// TestTwoSessionsOfAThreadAreKeptTogether keeps the new turns of two sessions of one thread. The thread stays at the turn of the
// session that it was at, as if the sessions were kept one after the other.
func TestTwoSessionsOfAThreadAreKeptTogether(t *testing.T) {
	for name, keep := range map[string]func(t *testing.T, s *local.Store, all ...timeline.KeepRequest){
		"one after the other": func(t *testing.T, s *local.Store, all ...timeline.KeepRequest) {
			for _, r := range all {
				keepAll(t, s, r)
			}
		},
		"together": func(t *testing.T, s *local.Store, all ...timeline.KeepRequest) { keepAll(t, s, all...) },
	} {
		t.Run(name, func(t *testing.T) {
			p := writeSessions(t, 2, 2)
			s, err := p.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			write := func(i, turns int) {
				t.Helper()
				if err := os.WriteFile(pathOf(p, i), []byte(transcriptOf(sessionID(i), "/srv/project-"+string(rune('0'+i)), turns)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			keepAll(t, s, requestFor(0))
			thread := threadOf(t, s, 0)
			head, err := s.Head(t.Context(), thread)
			if err != nil {
				t.Fatal(err)
			}
			// The user continues the conversation in another session.
			link := &segno.Link{Agent: claude.Agent, Session: segno.SessionID(sessionID(1)), Dir: "/srv/project-1", Path: pathOf(p, 1), Start: p.Now(), At: head.Head}
			if _, err := s.Commit(t.Context(), segno.Commit{ID: "link", Thread: thread, Expect: head.Head, Link: link}); err != nil {
				t.Fatal(err)
			}
			keepAll(t, s, requestFor(1))
			write(0, 3)
			write(1, 3)
			keep(t, s, requestFor(1), requestFor(0))
			head, err = s.Head(t.Context(), thread)
			if err != nil {
				t.Fatal(err)
			}
			line, err := s.Load(t.Context(), head.Head, segno.Window{Last: 1})
			if err != nil {
				t.Fatal(err)
			}
			at := line.Commits[0].Checkpoint
			if at.Session.Session != segno.SessionID(sessionID(1)) || !strings.HasPrefix(at.Prompt, "prompt 2") || head.Tip != head.Head {
				t.Errorf("the thread is at %q of session %s, and its tip is %s", at.Prompt, filepath.Base(string(at.Session.Session)), head.Tip)
			}
		})
	}
}

func threadOf(t *testing.T, s *local.Store, i int) (found segno.ThreadID) {
	t.Helper()
	for thread, err := range s.Threads(t.Context(), segno.ThreadQuery{Session: segno.SessionID(sessionID(i))}) {
		if err != nil {
			t.Fatal(err)
		}
		found = thread.ID
	}
	return found
}

// TestATurnInAResumedSessionFollowsItsCheckpoint resumes an older checkpoint, which writes another session that ends there. The
// turn that the user then makes in it follows that checkpoint, and the thread stays where it is.
func TestATurnInAResumedSessionFollowsItsCheckpoint(t *testing.T) {
	p := writeSessions(t, 1, 3)
	s, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keepAll(t, s, requestFor(0))
	thread := threadOf(t, s, 0)
	head, err := s.Head(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	line, err := s.Load(t.Context(), head.Head, segno.Window{})
	if err != nil {
		t.Fatal(err)
	}
	first := line.Commits[1].ID
	rec, err := s.Register(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tl, err := s.Timeline(rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	link, _, err := tl.Resume(t.Context(), thread, first)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(link.Path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var last struct{ UUID string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	more := transcriptOf(string(link.Session), link.Dir, 1)
	more = strings.Replace(more, `"parentUuid":null`, `"parentUuid":"`+last.UUID+`"`, 1)
	if err := os.WriteFile(link.Path, append(data, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	keepAll(t, s, timeline.KeepRequest{Agent: claude.Agent, Source: segno.Source{Session: link.Session, Path: link.Path}})
	now, err := s.Head(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	if now.Head != head.Head {
		t.Errorf("the thread moved")
	}
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: thread, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Session.Session != link.Session || c.Parent != first {
			t.Errorf("the turn %q of %s follows %s, not %s", c.Prompt, c.Session.Session, c.Parent, first)
		}
	}
}
