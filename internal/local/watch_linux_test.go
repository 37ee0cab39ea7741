package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// TestTurnsOfAWatchedDirectory records turns in a process that watches the directory, while other processes also record and
// move. A change that causes no event is missed by the turn, and the next move saves it before it writes anything.
func TestTurnsOfAWatchedDirectory(t *testing.T) {
	g := newFixture(t)
	g.write("dir/a", "0")
	g.write("hidden/b", "0")
	s, err := g.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.Watch(t.Context(), t.Logf)
	turn := func(key string, act func()) {
		t.Helper()
		rec, err := s.Register(t.Context(), g.project)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := s.Timeline(rec, nil)
		if err != nil {
			t.Fatal(err)
		}
		src := segno.Source{Session: "session", Dir: g.project}
		if _, err := tl.BeginTurn(t.Context(), timeline.Prompt{Key: segno.TurnKey(key), Agent: "test", Source: src, Text: key}); err != nil {
			t.Fatal(err)
		}
		act()
		if _, err := tl.EndTurn(t.Context(), timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test", Source: src}); err != nil {
			t.Fatal(err)
		}
	}
	turn("one", func() { g.write("dir/a", "1") })
	turn("two", func() { g.write("dir/a", "2"); g.write("new/deep/c", "2") })
	if err := g.turn("three", func() { g.write("dir/a", "3") }); err != nil { // by another process
		t.Fatal(err)
	}
	turn("four", func() { g.write("dir/a", "4") })
	g.wantFilesOfHead()

	turn("five", func() { g.write("dir/a", "5") }) // reads everything, because another process took a snapshot
	outside := filepath.Join(filepath.Dir(g.project), "outside")
	if err := os.Link(filepath.Join(g.project, "hidden/b"), outside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outside, []byte("not by a turn"), 0o644); err != nil {
		t.Fatal(err)
	}
	turn("six", func() { g.write("dir/a", "6") })
	external := func() (n int) {
		cs, _ := g.checkpoints()
		for _, c := range cs {
			if c.Kind == segno.CheckpointExternal {
				n++
			}
		}
		return n
	}
	before := external()
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Scope: timeline.ScopeBoth}); err != nil {
		t.Fatal(err)
	}
	g.wantFilesOfHead()
	if n := external() - before; n != 2 { // the present with the missed change, and the result, which differs from turn five by it
		t.Errorf("the move added %d external checkpoints", n)
	}
	if data, err := os.ReadFile(filepath.Join(g.project, "hidden/b")); err != nil || string(data) != "not by a turn" {
		t.Errorf("the move lost a change: %q, %v", data, err)
	}
}

// TestServedTurnsOfOtherProcesses records turns by short processes while one process watches the directory. The path of the
// store is longer than that of a socket may be.
func TestServedTurnsOfOtherProcesses(t *testing.T) {
	g := newFixture(t)
	g.place.Store = filepath.Join(filepath.Dir(g.project), strings.Repeat("long", 30), "store")
	g.write("dir/a", "0")
	s, err := g.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec, err := s.Register(t.Context(), g.project)
	if err != nil {
		t.Fatal(err)
	}
	s.Watch(t.Context(), t.Logf)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, done := make(chan *workspace.Watch, 1), make(chan error, 1)
	go func() { done <- s.ShareWatch(ctx, rec, func(w *workspace.Watch) { ready <- w }) }()
	var w *workspace.Watch
	select {
	case w = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	if err := s.ShareWatch(ctx, rec, nil); segno.KindOf(err) != segno.KindBusy {
		t.Errorf("a second process watches: %v", err)
	}
	for _, content := range []string{"1", "2", "3"} {
		if err := g.turn(content, func() { g.write("dir/a", content) }); err != nil {
			t.Fatal(err)
		}
		g.wantFilesOfHead()
	}
	if n := w.Stats().Served; n < 6 {
		t.Errorf("%d snapshots asked, of two for each turn", n)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := g.turn("4", func() { g.write("dir/a", "4") }); err != nil {
		t.Fatal(err)
	}
	g.wantFilesOfHead()
}
