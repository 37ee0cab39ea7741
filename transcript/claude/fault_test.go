package claude_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
)

// TestCutFailsWhole fails every operation of a cut, once and permanently. The new
// session is complete or absent, the source is unchanged, Cut always returns an
// error, and a second attempt succeeds.
func TestCutFailsWhole(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 3)
	d.sidecar(t, "tasks", "1.json", "one")
	d.sidecar(t, "session", "subagents/a.jsonl", "{}\n")
	got := d.capture(t, nil, nil)
	p := got.Earlier[1].Position
	source := snapshot(t, d.home)
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			c := claude.New(d.home, claude.Options{FS: faults.Wrap(noSync{vfs.OS})})
			to := segno.Target{Session: segno.SessionID(fmt.Sprintf("55555555-0000-4000-8000-%012d", n)), Dir: d.dir}
			if forever {
				to.Session = "66666666" + to.Session[8:]
			}
			_, err := c.Cut(ctx, p, to, d.o)
			if !faults.Fired() {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if err == nil {
				t.Errorf("the failure of operation %d (%s) was not told", n, faults.Trace()[n])
			}
			checkWhole(t, d, p, to)
			if _, err := d.c.Cut(ctx, p, to, d.o); err != nil {
				t.Errorf("after operation %d failed it cannot be repeated: %v", n, err)
			}
			checkWhole(t, d, p, to)
		}
	}
	for path, want := range source {
		if data, err := os.ReadFile(path); err != nil || string(data) != want {
			t.Errorf("%s changed, %v", path, err)
		}
	}
}

// checkWhole checks that a session is complete, with its sidecars, or absent.
func checkWhole(t *testing.T, d *fixture, p segno.Position, to segno.Target) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(d.path), string(to.Session)+".jsonl"))
	if err != nil {
		return
	}
	if int64(len(data)) != p.Offset {
		t.Errorf("%s has %d bytes of %d", to.Session, len(data), p.Offset)
	}
	for _, path := range []string{d.sidecarPath(to.Session, "tasks", "1.json"), d.sidecarPath(to.Session, "session", "subagents/a.jsonl")} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is there without %s", to.Session, path)
		}
	}
}

// TestRelocateFailsWhole fails every operation of a relocation in the same way.
func TestRelocateFailsWhole(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	d.sidecar(t, "session", "subagents/a.jsonl", "{}\n")
	for n := 0; ; n++ {
		faults := faultfs.FailAt(n)
		dir := filepath.Join(d.home, fmt.Sprintf("other-%d", n))
		c := claude.New(d.home, claude.Options{FS: faults.Wrap(noSync{vfs.OS})})
		_, err := c.Relocate(ctx, d.source(), dir)
		if !faults.Fired() {
			break
		}
		if err == nil {
			t.Errorf("the failure of operation %d (%s) was not told", n, faults.Trace()[n])
		}
		src, err := d.c.Relocate(ctx, d.source(), dir)
		if err != nil {
			t.Fatalf("after operation %d failed it cannot be repeated: %v", n, err)
		}
		if data, err := os.ReadFile(src.Path); err != nil || string(data) != string(d.bytes(t)) {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
	}
}

// TestOrderOfOperations pins the order of writes: content is synced
// before it gets its name, and sidecars are written before the transcript.
func TestOrderOfOperations(t *testing.T) {
	d := newFixture(t, 1)
	d.sidecar(t, "tasks", "1.json", "one")
	p := d.capture(t, nil, nil).Position
	faults := faultfs.FailAt(-1)
	c := claude.New(d.home, claude.Options{FS: faults.Wrap(vfs.OS)})
	if _, err := c.Cut(context.Background(), p, segno.Target{Session: secondSession, Dir: d.dir, Yield: true}, d.o); err != nil {
		t.Fatal(err)
	}
	temp := regexp.MustCompile(`\.segno-[A-Z0-9]+`)
	var got []string
	for _, op := range faults.Trace() {
		got = append(got, temp.ReplaceAllString(op, "TEMP"))
	}
	project := filepath.Base(filepath.Dir(d.path))
	want := []string{
		"create: TEMP", "write: TEMP", "chtimes: TEMP", "sync: TEMP",
		"mkdir: " + secondSession, "syncdir: tasks",
		"create: TEMP", "write: TEMP", "sync: TEMP", "link: 1.json", "remove: TEMP", "syncdir: " + secondSession,
		"link: " + secondSession + ".jsonl", "remove: TEMP", "syncdir: " + project,
	}
	if got = got[:min(len(got), len(want))]; !slices.Equal(got, want) {
		t.Errorf("operations\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRestoreFailsWhole fails every operation of a restore. The session is restored with all of its
// bytes or not at all, and a second attempt succeeds.
func TestRestoreFailsWhole(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 3)
	d.sidecar(t, "tasks", "1.json", "one")
	d.sidecar(t, "session", "subagents/a.jsonl", "{}\n")
	p := d.capture(t, nil, nil).Position
	want := snapshot(t, d.home)
	lose := func() {
		for _, dir := range []string{"projects", "tasks"} {
			if err := os.RemoveAll(filepath.Join(d.home, dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := 0; ; n++ {
		lose()
		faults := faultfs.FailAt(n)
		c := claude.New(d.home, claude.Options{FS: faults.Wrap(noSync{vfs.OS})})
		_, err := c.Restore(ctx, p, d.dir, d.o)
		if !faults.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if err == nil {
			t.Errorf("the failure of operation %d (%s) was not told", n, faults.Trace()[n])
		}
		if data, err := os.ReadFile(d.path); err == nil && string(data) != want[d.path] {
			t.Errorf("after operation %d failed the session has %d bytes", n, len(data))
		}
		if _, err := d.c.Restore(ctx, p, d.dir, d.o); err != nil {
			t.Errorf("after operation %d failed it cannot be repeated: %v", n, err)
		}
	}
	for path, content := range want {
		if data, err := os.ReadFile(path); err != nil || string(data) != content {
			t.Errorf("%s has %d bytes, %v", path, len(data), err)
		}
	}
	d.turn("more")
	d.flush(t)
	_, err := d.c.Restore(ctx, p, d.dir, d.o)
	wantKind(t, err, segno.KindConflict)
	_, err = d.c.Restore(ctx, p, filepath.Join(d.home, "other"), d.o)
	wantKind(t, err, segno.KindConflict)
}
