package claude_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/claude"
)

// sidecarPath returns where a sidecar of a session is.
func (d *fixture) sidecarPath(session segno.SessionID, root, name string) string {
	if root == "session" {
		return filepath.Join(filepath.Dir(d.path), string(session), name)
	}
	return filepath.Join(d.home, root, string(session), name)
}

// sidecar writes a sidecar that is older than racyAge, so that a capture trusts its time.
func (d *fixture) sidecar(t testing.TB, root, name, content string) string {
	t.Helper()
	path := d.sidecarPath(d.session, root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSidecarsTravel(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	files := map[[2]string]string{
		{"session", "subagents/agent-a.jsonl"}: `{"isSidechain":true,"sessionId":"` + firstSession + `"}` + "\n",
		{"session", "tool-results/x.txt"}:      strings.Repeat("out\n", 10000),
		{"tasks", "1.json"}:                    `{"id":"1"}`,
		{"tasks", ".lock"}:                     "",
		{"file-history", "0123@v1"}:            "old\xff",
		{"session-env", "hook-0.sh"}:           "export A=1\n",
		{"tasks", "odd \"name\"\xfe\n"}:        "x",
	}
	for at, content := range files {
		d.sidecar(t, at[0], at[1], content)
	}
	d.sidecar(t, "session", "resume-head.jsonl", `{"version":1}`)
	if err := os.Symlink("/etc/passwd", d.sidecarPath(firstSession, "tasks", "link")); err != nil {
		t.Fatal(err)
	}
	p := d.capture(t, nil, nil).Position
	for _, root := range []string{"session", "tasks", "file-history", "session-env"} {
		if err := os.RemoveAll(d.sidecarPath(firstSession, root, "")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.c.Cut(ctx, p, d.target(), d.o); err != nil {
		t.Fatal(err)
	}
	for at, want := range files {
		path := d.sidecarPath(secondSession, at[0], at[1])
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%v is %q, %v", at, got, err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
			t.Errorf("%v has mode %v, %v", at, fi.Mode(), err)
		}
	}
	if _, err := os.Lstat(d.sidecarPath(secondSession, "tasks", "link")); err == nil {
		t.Error("a symlink was carried")
	}
	if _, err := os.Lstat(d.sidecarPath(secondSession, "session", "resume-head.jsonl")); err == nil {
		t.Error("offsets into another transcript were carried")
	}
}

// A cut at a position without stored sidecars takes the present sidecars.
func TestSidecarsOfAnOldPosition(t *testing.T) {
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	d.sidecar(t, "tasks", "1.json", "one")
	if _, err := d.c.Cut(context.Background(), p, d.target(), d.o); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(d.sidecarPath(secondSession, "tasks", "1.json")); err != nil || string(got) != "one" {
		t.Fatalf("%q, %v", got, err)
	}
}

// A capture does not read an unchanged sidecar. The test replaces the sidecar's content under the
// same size and time, and the capture still has the old content.
func TestUnchangedSidecarsAreNotReadAgain(t *testing.T) {
	d := newFixture(t, 1)
	path := d.sidecar(t, "tasks", "1.json", "one")
	p := d.capture(t, nil, nil).Position
	d.sidecar(t, "tasks", "1.json", "two")
	keepTime(t, d, path, p)
	again := d.capture(t, &p, nil).Position
	if again.Sidecars != p.Sidecars {
		t.Error("an unchanged sidecar was read")
	}
	d.sidecar(t, "tasks", "1.json", "three")
	if changed := d.capture(t, &p, nil).Position; changed.Sidecars == p.Sidecars {
		t.Error("a changed sidecar was not read")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if none := d.capture(t, &p, nil).Position; !none.Sidecars.IsZero() {
		t.Error("a sidecar that is gone is still listed")
	}
}

// keepTime sets a file's time to the one in the stored list.
func keepTime(t *testing.T, d *fixture, path string, p segno.Position) {
	t.Helper()
	data, err := d.o.Get(context.Background(), p.Sidecars)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.Split(string(data), "\n")[1])
	at, err := time.ParseDuration(words[2] + "ns")
	if err != nil {
		t.Fatal(err)
	}
	then := time.Unix(0, int64(at))
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

// A new file may change again within the same tick of the clock of the file system.
func TestYoungSidecarsAreReadAgain(t *testing.T) {
	d := newFixture(t, 1)
	path := d.sidecar(t, "tasks", "1.json", "one")
	now := time.Now().Add(time.Minute)
	var prev *segno.Position
	for _, content := range []string{"two", "six"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
		p := d.capture(t, prev, nil).Position
		prev = &p
		data, err := d.o.Get(context.Background(), p.Sidecars)
		if name := segno.HashOf([]byte(content)).String(); err != nil || !strings.Contains(string(data), name) {
			t.Errorf("%s is not in %s, %v", content, data, err)
		}
	}
}

func TestLargeSidecarsAreLeftOutAloud(t *testing.T) {
	d := newFixture(t, 1)
	path := d.sidecar(t, "session", "tool-results/huge.txt", "")
	if err := os.Truncate(path, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	got := d.capture(t, nil, nil)
	if len(got.Damage) != 1 || !strings.Contains(got.Damage[0].Why, "huge.txt") || !got.Position.Sidecars.IsZero() {
		t.Errorf("captured %+v", got)
	}
}

// TestUntrustedSidecars checks that a session that another machine captured gets no file that the agent runs before each command.
// Everything else of it is written, and a trusted list is whole.
func TestUntrustedSidecars(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	d.sidecar(t, "session-env", "hook-0.sh", "touch /tmp/x\n")
	d.sidecar(t, "tasks", "1.json", "one")
	p := d.capture(t, nil, nil).Position
	var asked segno.Hash
	untrusted := claude.New(d.home, claude.Options{Objects: d.o, IsUntrusted: func(_ context.Context, h segno.Hash) (bool, error) {
		asked = h
		return h == p.Sidecars, nil
	}})
	if _, err := untrusted.Cut(ctx, p, d.target(), d.o); err != nil {
		t.Fatal(err)
	}
	if asked != p.Sidecars {
		t.Errorf("asked about %s", asked)
	}
	if _, err := os.Lstat(d.sidecarPath(secondSession, "session-env", "hook-0.sh")); !os.IsNotExist(err) {
		t.Errorf("the agent would run a file of another machine: %v", err)
	}
	if got, err := os.ReadFile(d.sidecarPath(secondSession, "tasks", "1.json")); err != nil || string(got) != "one" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSidecarsBesideAForeignPath checks that a position of another machine, whose path and session name a directory of the user,
// brings no file of it into the session: a push would send it to that machine.
func TestSidecarsBesideAForeignPath(t *testing.T) {
	d := newFixture(t, 2)
	p := d.capture(t, nil, nil).Position
	home := t.TempDir()
	private := filepath.Join(home, "Documents", "diary.txt")
	if err := os.MkdirAll(filepath.Dir(private), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(private, []byte("private"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Session, p.Path, p.Sidecars = "Documents", filepath.Join(home, "x.jsonl"), segno.Hash{}
	if _, err := d.c.Cut(context.Background(), p, d.target(), d.o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(d.sidecarPath(secondSession, "session", "diary.txt")); !os.IsNotExist(err) {
		t.Errorf("a private file is a part of the session: %v", err)
	}
}
