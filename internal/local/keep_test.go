package local_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

func requestFor(i int) timeline.KeepRequest {
	return timeline.KeepRequest{Agent: claude.Agent, Source: segno.Source{Session: segno.SessionID(sessionID(i))}}
}

// keepAll keeps sessions and returns a line for each. A session is durable when keepAll adds its line.
func keepAll(t testing.TB, store *local.Store, requests ...timeline.KeepRequest) (lines []string) {
	t.Helper()
	ctx := context.Background()
	err := store.SessionTimeline().KeepSessions(ctx, requests, func(r timeline.KeepRequest, k timeline.Kept, err error) {
		line := fmt.Sprintf("%s %d", string(r.Source.Session)[:8], k.Turns)
		if err != nil {
			line += " " + segno.KindOf(err).String()
		} else if head, err := store.Head(ctx, k.Thread); err != nil || head.Head == "" {
			t.Errorf("%s is not in the store: %v", line, err)
		}
		lines = append(lines, line)
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestManySessionsAreKeptTogether keeps several sessions in one call: a session, a fork of it, an empty session, the
// first session again, and, twice, a session whose thread the user deleted.
func TestManySessionsAreKeptTogether(t *testing.T) {
	ctx := context.Background()
	p := writeSessions(t, 4, 2)
	store, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	deleted, err := store.SessionTimeline().KeepSession(ctx, requestFor(3))
	if err == nil {
		err = store.Delete(ctx, deleted.Thread)
	}
	if err != nil {
		t.Fatal(err)
	}
	fork := strings.ReplaceAll(transcriptOf(sessionID(0), "/srv/project-1", 3), `"sessionId":"`+sessionID(0), `"sessionId":"`+sessionID(1))
	for i, text := range map[int]string{1: fork, 2: "{}\n"} {
		path := filepath.Join(p.Homes["claude"], "projects", claude.Slug(fmt.Sprintf("/srv/project-%d", i)), sessionID(i)+".jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := keepAll(t, store, requestFor(0), requestFor(1), requestFor(2), requestFor(3), requestFor(3), requestFor(0))
	want := []string{"00000000 2", "00000001 1", "00000002 0 does not exist", "00000003 2", "00000003 0", "00000000 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var parents []segno.CommitID
	for thread, err := range store.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if parents = append(parents, thread.Parent); thread.ID == deleted.Thread {
			t.Error("the deleted thread is back")
		}
	}
	if n := len(slices.DeleteFunc(parents, func(p segno.CommitID) bool { return p == "" })); n != 1 {
		t.Errorf("%d of the threads are forks", n)
	}
}

// TestEveryFailureOfKeepingAndMoving fails each disk operation while segno keeps sessions and moves one of them. The
// sources stay unchanged, each session that was reported as kept is in the store, and the next call stores the missing
// turns.
func TestEveryFailureOfKeepingAndMoving(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	faults := faultfs.FailAt(-1)
	keepAndMove(t, faults)
	for i, n := range faultfs.Sample(t, faults.Trace()) {
		faults := faultfs.FailAt(n)
		faults.Forever = i%2 == 0 // a full disk stays full
		keepAndMove(t, faults)
	}
}

// writingFS appends a line to a transcript when a file is written below another directory.
type writingFS struct {
	vfs.FS
	below string
	write func()
}

func (w writingFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := w.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasPrefix(name, w.below) {
		return f, err
	}
	return writingFile{f, w.write}, nil
}

type writingFile struct {
	vfs.File
	write func()
}

func (f writingFile) Write(data []byte) (int, error) {
	f.write()
	return f.File.Write(data)
}

// TestASessionIsWrittenWhileItIsMoved has another process continue a session while segno copies it. segno then moves
// nothing.
func TestASessionIsWrittenWhileItIsMoved(t *testing.T) {
	ctx := context.Background()
	const turns = 1000 // more than one write of the copy takes
	p := writeSessions(t, 1, turns)
	to := filepath.Join(t.TempDir(), "to")
	source := filepath.Join(p.Homes["claude"], "projects", claude.Slug("/srv/project-0"), sessionID(0)+".jsonl")
	added := 0
	p.FS = writingFS{vfs.OS, filepath.Join(p.Homes["claude"], "projects", claude.Slug(to)), func() {
		if added++; added > 1 {
			return
		}
		f, err := os.OpenFile(source, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if _, err := f.WriteString("{}\n"); err != nil {
			t.Error(err)
		}
	}}
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r := requestFor(0)
	r.Source.Path = source
	_, err = store.SessionTimeline().MoveSession(ctx, r, to)
	if segno.KindOf(err) != segno.KindBusy || !strings.Contains(err.Error(), "another process writes to the session") {
		t.Fatalf("moved while it was written: %v", err)
	}
	want := map[string]string{source: transcriptOf(sessionID(0), "/srv/project-0", turns) + "{}\n"}
	if diff := cmp.Diff(want, readAll(t, p.Homes["claude"])); diff != "" {
		t.Errorf("the agent's files:\n%s", diff)
	}
	if _, err := store.SessionTimeline().MoveSession(ctx, r, to); err != nil {
		t.Error(err)
	}
}

func keepAndMove(t *testing.T, faults *faultfs.Faults) {
	t.Helper()
	ctx := context.Background()
	p := writeSessions(t, 3, 3)
	home := filepath.Dir(p.Homes["claude"])
	// A result of a tool too large for the database, and a directory to move to.
	big := make([]byte, 2<<20)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	sidecar := filepath.Join(p.Homes["claude"], "projects", claude.Slug("/srv/project-0"), sessionID(0), "tool-results", "big.txt")
	if err := os.MkdirAll(filepath.Dir(sidecar), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sidecar, big, 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(home, "to")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	before := readAll(t, p.Homes["claude"])
	failing := p
	failing.FS = faults.Wrap(vfs.OS)
	kept := map[segno.ThreadID]bool{}
	store, err := failing.Open(ctx)
	if err == nil {
		err = store.SessionTimeline().KeepSessions(ctx, []timeline.KeepRequest{requestFor(0), requestFor(1), requestFor(2)}, func(_ timeline.KeepRequest, k timeline.Kept, err error) {
			if err == nil {
				kept[k.Thread] = true
			}
		})
		if err == nil {
			r := requestFor(0)
			r.Source.Path = filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(sidecar))), sessionID(0)+".jsonl")
			_, err = store.SessionTimeline().MoveSession(ctx, r, to)
		}
		store.Close()
	}
	if err == nil && len(kept) == 3 && faults.Fired() {
		t.Errorf("a failed operation was not reported: %v", faults.Trace()[len(faults.Trace())-1])
	}
	after := readAll(t, p.Homes["claude"])
	maps.DeleteFunc(after, func(path, _ string) bool { // on a full disk, segno may fail to remove a hidden file
		return faults.Forever && strings.HasPrefix(filepath.Base(path), ".segno-")
	})
	for path, text := range before {
		if after[path] != text {
			t.Errorf("%s has changed", path)
		}
	}
	moved := filepath.Join(p.Homes["claude"], "projects", claude.Slug(to), sessionID(0)+".jsonl")
	if text, ok := after[moved]; ok && (text != transcriptOf(sessionID(0), "/srv/project-0", 3) || len(after) != 2+len(before)) {
		t.Errorf("half of the session was moved: %d files beside the %d", len(after)-len(before), len(before))
	}
	if store, err = p.Open(ctx); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for thread := range kept {
		if head, err := store.Head(ctx, thread); err != nil || head.Turn != 3 {
			t.Errorf("a kept session has %d turns, %v", head.Turn, err)
		}
	}
	keepAll(t, store, requestFor(0), requestFor(1), requestFor(2))
	for thread, err := range store.Threads(ctx, segno.ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if head, err := store.Head(ctx, thread.ID); err != nil || head.Turn != 3 {
			t.Errorf("a session has %d turns, %v", head.Turn, err)
		}
	}
}

func readAll(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
