package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
)

// opens counts how often the transcripts below a home of Claude Code are opened during f.
func opens(t *testing.T, p local.Place, f func()) (n int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	folders, err := filepath.Glob(filepath.Join(p.Homes[claude.Agent], "projects", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if _, err := unix.InotifyAddWatch(fd, folder, unix.IN_OPEN); err != nil {
			t.Fatal(err)
		}
	}
	f()
	buf := make([]byte, 1<<20)
	for {
		size, err := unix.Read(fd, buf)
		if err != nil { // no more events
			return n
		}
		n += bytes.Count(buf[:size], []byte(".jsonl\x00"))
	}
}

// listed returns the number of turns of each session that a list without a store contains.
func listed(t *testing.T, p local.Place) map[segno.SessionID]int {
	t.Helper()
	found, skipped := p.FindSessions(t.Context())
	details, err := p.Details(t.Context(), nil, found)
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	turns := map[segno.SessionID]int{}
	for _, d := range details {
		if d.Err != nil || d.Kept || d.Thread != "" || d.Title != "prompt 0" {
			t.Errorf("%+v", d)
		}
		turns[d.Session] = d.Turns
	}
	return turns
}

// TestSessionsAreRememberedWithoutAStore lists sessions on a machine that has no store. The second list opens only
// the transcript that changed, and there is still no store.
func TestSessionsAreRememberedWithoutAStore(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	if n := opens(t, p, func() { listed(t, p) }); n < manySessions {
		t.Fatalf("the first list opened %d transcripts", n)
	}
	if err := os.WriteFile(pathOf(p, 3), []byte(transcriptOf(sessionID(3), "/srv/project-3", 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pathOf(p, 4)); err != nil {
		t.Fatal(err)
	}
	var turns map[segno.SessionID]int
	n := opens(t, p, func() { turns = listed(t, p) })
	if n == 0 || n > 3 {
		t.Errorf("the second list opened transcripts %d times", n)
	}
	if len(turns) != manySessions-1 || turns[segno.SessionID(sessionID(3))] != 3 || turns[segno.SessionID(sessionID(5))] != 2 {
		t.Errorf("%d sessions: %v", len(turns), turns)
	}
	if p.Exists() {
		t.Error("the list made a store")
	}
	if got := mustKeepChanged(t, p); len(got) != manySessions-1 {
		t.Errorf("%d sessions were kept by the first store", len(got))
	}
	wantKeptTurns(t, p, manySessions-1)
}

// wantKeptTurns checks how many sessions the store lists as kept.
func wantKeptTurns(t *testing.T, p local.Place, n int) {
	t.Helper()
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	found, _ := p.FindSessions(t.Context())
	details, err := p.Details(t.Context(), store, found)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, d := range details {
		if d.Kept {
			kept++
		}
	}
	if kept != n {
		t.Errorf("%d sessions are kept, not %d", kept, n)
	}
}

// TestAnIndexWithoutAStoreMayBeDamaged lists sessions with an index that is damaged, is a FIFO, or cannot be written.
func TestAnIndexWithoutAStoreMayBeDamaged(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	want := listed(t, p)
	name := filepath.Join(p.Store, "index", "sessions")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, p local.Place) {
		t.Helper()
		if got := listed(t, p); len(got) != len(want) {
			t.Errorf("%s: %d sessions", what, len(got))
		}
	}
	for _, data := range [][]byte{whole[:len(whole)/2], []byte(strings.Repeat("x", 100)), nil, append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		check("damaged", p)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	check("a FIFO", p)
	for n := 0; ; n++ {
		if err := os.RemoveAll(p.Store); err != nil {
			t.Fatal(err)
		}
		faults, faulty := faultfs.FailAt(n), p
		faulty.FS = faults.Wrap(vfs.OS)
		check("a fault", faulty)
		check("after a fault", p)
		if !faults.Fired() {
			return
		}
	}
}

// TestAnIndexFromBeforeTheStoreIsSealed seals a store that does not exist yet, where a list has left an index.
func TestAnIndexFromBeforeTheStoreIsSealed(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	listed(t, p)
	g := &fixture{TB: t, place: p, project: filepath.Join(filepath.Dir(p.Store), "project")}
	g.seal(g.keyFile("key"))
	sealed, err := os.ReadFile(filepath.Join(p.Store, "index", "sessions"))
	if err != nil || bytes.Contains(sealed, []byte("prompt 0")) {
		t.Errorf("the index shows a prompt, %v", err)
	}
}
