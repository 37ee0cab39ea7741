package claude_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/claude"
)

func TestRelocate(t *testing.T) {
	ctx := context.Background()
	d := newFixture(t, 2)
	d.sidecar(t, "session", "tool-results/x.txt", "out")
	d.sidecar(t, "tasks", "1.json", "one")
	before := d.bytes(t)
	if err := os.WriteFile(d.path, append(d.bytes(t), `{"torn`...), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(d.home, "other.dir")
	want := segno.Source{Session: firstSession, Dir: other, Path: filepath.Join(d.home, "projects", claude.Slug(other), firstSession+".jsonl")}
	for range 2 {
		got, err := d.c.Relocate(ctx, d.source(), other)
		if err != nil || got != want {
			t.Fatalf("moved to %+v, %v", got, err)
		}
	}
	if data, err := os.ReadFile(want.Path); err != nil || string(data) != string(before) {
		t.Errorf("%d bytes, %v; want %d", len(data), err, len(before))
	}
	if out, err := os.ReadFile(filepath.Join(filepath.Dir(want.Path), firstSession, "tool-results/x.txt")); err != nil || string(out) != "out" {
		t.Errorf("%q, %v", out, err)
	}
	if got, err := d.c.Relocate(ctx, d.source(), d.dir); err != nil || got != d.source() {
		t.Errorf("in place it is %+v, %v", got, err)
	}
	d.turn("more")
	if err := os.WriteFile(d.path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	d.flush(t)
	_, err := d.c.Relocate(ctx, d.source(), other)
	wantKind(t, err, segno.KindConflict)
	_, err = d.c.Relocate(ctx, d.source(), "relative")
	wantKind(t, err, segno.KindInvalid)
	_, err = d.c.Relocate(ctx, segno.Source{Session: secondSession}, other)
	wantKind(t, err, segno.KindNotFound)
}

func TestSymlinkedDirectory(t *testing.T) {
	d := newFixture(t, 1)
	link := filepath.Join(d.home, "link")
	if err := os.Symlink(d.dir, link); err != nil {
		t.Fatal(err)
	}
	p := d.capture(t, nil, nil).Position
	src, err := d.c.Cut(context.Background(), p, segno.Target{Session: secondSession, Dir: link}, d.o)
	if err != nil || filepath.Dir(src.Path) != filepath.Dir(d.path) || src.Dir != link {
		t.Fatalf("cut to %+v, %v", src, err)
	}
	if got := d.c.Resume(src); !slices.Equal(got, []string{"claude", "--resume", secondSession}) || d.c.Agent() != "claude" {
		t.Errorf("resume with %q", got)
	}
}

func TestPreferMakesASessionTheNewest(t *testing.T) {
	d := newFixture(t, 1)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(d.path, old, old); err != nil {
		t.Fatal(err)
	}
	before := d.bytes(t)
	if err := d.c.Prefer(context.Background(), d.source()); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(d.path); err != nil || !fi.ModTime().After(old) || string(d.bytes(t)) != string(before) {
		t.Errorf("%v, %v", fi.ModTime(), err)
	}
}

func TestLive(t *testing.T) {
	d := newFixture(t, 0)
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[19]
	if err := os.Mkdir(filepath.Join(d.home, "sessions"), 0o700); err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]bool{
		fmt.Sprintf(`{"pid":%d,"sessionId":"%s","procStart":"%s"}`, os.Getpid(), firstSession, start):  true,
		fmt.Sprintf(`{"pid":%d,"sessionId":"%s"}`, os.Getpid(), firstSession):                          true,
		fmt.Sprintf(`{"pid":%d,"sessionId":"%s","procStart":"1"}`, os.Getpid(), firstSession):          false,
		fmt.Sprintf(`{"pid":%d,"sessionId":"%s","procStart":"%s"}`, os.Getpid(), secondSession, start): false,
		fmt.Sprintf(`{"pid":%d,"sessionId":"%s","procStart":"%s"}`, 1<<22+1, firstSession, start):      false,
		`{"pid":`: false,
	} {
		if err := os.WriteFile(filepath.Join(d.home, "sessions", "1.json"), []byte(entry), 0o600); err != nil {
			t.Fatal(err)
		}
		if pid, alive := d.c.Live(context.Background(), firstSession); alive != want || alive && pid != os.Getpid() {
			t.Errorf("%s: %d, %v", entry, pid, alive)
		}
	}
}

func TestAwaitMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, 1)
		size := int64(len(d.bytes(t)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.c.AwaitMessage(ctx, d.source(), "  done: turn 1\n", 0); err != nil {
			t.Error(err)
		}
		if err := d.c.AwaitMessage(ctx, d.source(), "", size); err != nil {
			t.Error(err)
		}
		done := make(chan error)
		go func() { done <- d.c.AwaitMessage(ctx, segno.Source{Session: firstSession}, "done: two", size) }()
		synctest.Wait()
		d.turn("two")
		torn := d.lines[len(d.lines)-1]
		d.lines[len(d.lines)-1] = torn[:len(torn)/2]
		d.flush(t)
		<-time.After(50 * time.Millisecond) // of the bubble's clock
		select {
		case err := <-done:
			t.Fatalf("half a line is enough: %v", err)
		default:
		}
		d.lines = append(d.lines, torn[len(torn)/2:])
		d.flush(t)
		if err := <-done; err != nil {
			t.Error(err)
		}
		err := d.c.AwaitMessage(ctx, segno.Source{Session: secondSession}, "never", 0)
		wantKind(t, err, segno.KindCancelled)
	})
}

// TestAwaitMessageOfABusyAgent waits for an answer that the agent writes after five seconds. AwaitMessage gives up after a
// second if the agent wrote another text, and without a transcript.
func TestAwaitMessageOfABusyAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t, 1)
		size := int64(len(d.bytes(t)))
		ctx := t.Context()
		d.prompt("two")
		d.flush(t)
		done := make(chan error)
		go func() { done <- d.c.AwaitMessage(ctx, d.source(), "the answer", size) }()
		<-time.After(5 * time.Second) // of the bubble's clock
		d.answer("the answer")
		d.flush(t)
		if err := <-done; err != nil {
			t.Errorf("an answer after five seconds: %v", err)
		}
		for what, src := range map[string]segno.Source{"another text": d.source(), "no transcript": {Session: secondSession}} {
			start := time.Now()
			wantKind(t, d.c.AwaitMessage(ctx, src, "the answer in pieces", size), segno.KindCancelled)
			if took := time.Since(start); took < time.Second || took > 2*time.Second {
				t.Errorf("%s: gave up after %s", what, took)
			}
		}
	})
}
