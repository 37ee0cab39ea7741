package codex_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestSessionsAndHeaders lists a session, a running session, a FIFO and a file that is not a rollout.
func TestSessionsAndHeaders(t *testing.T) {
	ctx := context.Background()
	home := t.TempDir()
	c := codex.New(home, codex.Options{})
	dir := filepath.Join(home, "sessions", "2026", "11", "20")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	meta := `{"timestamp":"2026-11-20T12:08:11.000Z","type":"session_meta","payload":{"id":"` + firstID + `","timestamp":"2026-11-20T12:08:11.000Z","cwd":"/srv/proj"}}` + "\n"
	turn := `{"timestamp":"2026-11-20T12:08:12.000Z","type":"event_msg","payload":{"type":"user_message","message":"hello"}}` + "\n" +
		`{"timestamp":"2026-11-20T12:08:13.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[]}}` + "\n"
	name := filepath.Join(dir, "rollout-2026-11-20T12-08-11-"+firstID+".jsonl")
	if err := os.WriteFile(name, []byte(meta+turn), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "rollout-2026-11-20T12-08-11-"+secondID+".jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var files []transcript.SessionFile
	var failed []error
	for f, err := range c.Sessions(ctx) {
		if err != nil {
			failed = append(failed, err)
		} else {
			files = append(files, f)
		}
	}
	if len(files) != 1 || files[0].Session != firstID || len(failed) != 1 || segno.KindOf(failed[0]) != segno.KindInvalid {
		t.Fatalf("listed %+v, %v", files, failed)
	}
	want := transcript.SessionHeader{Dir: "/srv/proj", Title: "hello", Turns: 1, End: int64(len(meta + turn))}
	for _, content := range []string{meta + turn, meta + turn + `{"torn`} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Header(ctx, files[0], 1<<20); err != nil || got != want {
			t.Errorf("the header is %+v, %v", got, err)
		}
	}
	if err := os.WriteFile(name, []byte(meta+turn+strings.Repeat(turn, 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Header(ctx, files[0], 0); err != nil || got.Turns != -1 || got.Title != "hello" || got.End != int64(len(meta)+2001*len(turn)) {
		t.Errorf("the header of a large rollout is %+v, %v", got, err)
	}
}

// TestRunningSessionsHoldALock lists a session as running while its lock is held, and not after that.
func TestRunningSessionsHoldALock(t *testing.T) {
	home := t.TempDir()
	c := codex.New(home, codex.Options{})
	if err := os.Mkdir(filepath.Join(home, "thread-writer-locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(home, "thread-writer-locks", firstID+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, want := range []int{0, -1} {
		if got := c.Running(context.Background())[firstID]; got != want {
			t.Errorf("the process is %d, want %d", got, want)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoreWritesTheSameBytes captures a session with two turns, deletes it and restores it.
func TestRestoreWritesTheSameBytes(t *testing.T) {
	ctx := context.Background()
	home := t.TempDir()
	s := newSession(t, home, firstID, nil)
	s.turn("one", "first")
	s.turn("two", "second")
	s.flush()
	before := s.data()
	local := filepath.Join(filepath.Dir(s.path()), "rollout-2026-11-22T17-31-03-"+firstID+".jsonl") // in another time zone
	if err := os.Rename(s.path(), local); err != nil {
		t.Fatal(err)
	}
	o := newMemoryObjects()
	c := codex.New(home, codex.Options{})
	got, err := c.CaptureTurns(ctx, segno.Source{Session: firstID}, nil, nil, o, o.Batch(), nil)
	if err != nil || len(got.Earlier) != 1 || got.Text != "second" {
		t.Fatalf("captured %+v, %v", got, err)
	}
	if _, err := c.Restore(ctx, got.Position, s.dir, o); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("restored over the session: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(home, "sessions")); err != nil {
		t.Fatal(err)
	}
	src, err := c.Restore(ctx, got.Position, s.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if src.Path != local {
		t.Errorf("it came back at %s, want %s", src.Path, local)
	}
	if after, err := os.ReadFile(src.Path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%d bytes came back of %d, %v", len(after), len(before), err)
	}
}
