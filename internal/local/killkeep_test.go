package local_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

// placeBelow returns the place of writeSessions, for the process that is killed.
func placeBelow(home string) local.Place {
	return local.Place{Store: filepath.Join(home, "store"), UserHome: home, Homes: local.Homes{"claude": filepath.Join(home, ".claude")}, Now: time.Now}
}

// keepUntilKilled keeps every session, moves it and prints a line, until it is killed.
func keepUntilKilled(home string) {
	ctx := context.Background()
	p := placeBelow(home)
	fail := func(err error) {
		os.Stdout.WriteString("error: " + err.Error() + "\n")
		os.Exit(1)
	}
	for i := 0; ; i++ {
		store, err := p.Open(ctx)
		if err != nil {
			fail(err)
		}
		found, _ := p.FindSessions(ctx)
		dir := filepath.Join(home, fmt.Sprintf("moved-%d", i%2))
		for _, s := range found {
			r := timeline.KeepRequest{Agent: s.Agent, Source: segno.Source{Session: s.Session, Path: s.Path}}
			if _, err := store.SessionTimeline().KeepSession(ctx, r); err != nil {
				fail(err)
			}
			if _, err := store.SessionTimeline().MoveSession(ctx, r, dir); err != nil {
				fail(err)
			}
			os.Stdout.WriteString("moved\n")
		}
		store.Close()
	}
}

// TestKilledWhileKeepingAndMoving kills a process that keeps and moves sessions. The sources stay unchanged, each moved
// session is complete, and the next keep completes the rest.
func TestKilledWhileKeepingAndMoving(t *testing.T) {
	ctx := context.Background()
	const sessions, turns = 4, 70 // more turns than one commit takes
	kills := 10
	if testing.Short() {
		return // it takes seconds
	}
	for i := range soak.Count(t, kills, 2000) {
		p := writeSessions(t, sessions, turns)
		home := filepath.Dir(p.Homes["claude"])
		for _, dir := range []string{"moved-0", "moved-1"} {
			if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		killKeep(t, home)
		store, err := p.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		paths, err := filepath.Glob(filepath.Join(p.Homes["claude"], "projects", "*", "*.jsonl"))
		if err != nil || len(paths) < sessions {
			t.Fatalf("%d transcripts, %v", len(paths), err)
		}
		for _, path := range paths {
			session := strings.TrimSuffix(filepath.Base(path), ".jsonl")
			var n int
			if _, err := fmt.Sscanf(session, "%08x", &n); err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != transcriptOf(session, fmt.Sprintf("/srv/project-%d", n), turns) {
				t.Errorf("after kill %d %s has %d bytes, %v", i, path, len(data), err)
			}
		}
		for n := range sessions {
			session := segno.SessionID(sessionID(n))
			k, err := store.SessionTimeline().KeepSession(ctx, timeline.KeepRequest{Agent: claude.Agent, Source: segno.Source{Session: session}})
			if err != nil {
				t.Fatal(err)
			}
			head, err := store.Head(ctx, k.Thread)
			if err != nil || head.Turn != turns {
				t.Errorf("after kill %d session %d has %d turns, %v", i, n, head.Turn, err)
			}
		}
		store.Close()
	}
}

// killKeep starts the process and kills it after a while.
func killKeep(t *testing.T, home string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SEGNO_TEST_KEEPS="+home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Duration(20+rand.IntN(250))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	var text strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		if text.Write(buf[:n]); err != nil {
			break
		}
	}
	_ = cmd.Wait()
	if strings.Contains(text.String(), "error") {
		t.Fatal(text.String())
	}
}
