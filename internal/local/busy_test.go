package local_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the foreign writer

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// holdWriter holds the store's writer until the caller calls release.
func (g *fixture) holdWriter() (release func()) {
	g.Helper()
	db, err := sql.Open("sqlite", filepath.Join(g.place.Store, "segno.db"))
	if err != nil {
		g.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(g.Context(), "BEGIN IMMEDIATE"); err != nil {
		g.Fatal(err)
	}
	return func() {
		if _, err := db.ExecContext(context.WithoutCancel(g.Context()), "ROLLBACK"); err != nil {
			g.Error(err)
		}
		db.Close()
	}
}

// TestABusyStoreLosesNoTurn ends turns while another process holds the writer. The turns are
// deferred, and committed in order once the writer is free.
func TestABusyStoreLosesNoTurn(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	g.place.StoreWait = 20 * time.Millisecond
	src := segno.Source{Session: "session", Dir: g.project}
	release := g.holdWriter()
	for i, key := range []string{"B", "C"} {
		g.write("mine", key) // between turns
		if err := g.begin(key, src); err != nil {
			t.Fatal(err)
		}
		g.write("a", key)
		if err := g.end(nil, key); err != nil {
			t.Fatalf("turn %d under a busy store: %v", i+2, err)
		}
	}
	release()
	g.runNextCommand()
	cs, head := g.checkpoints()
	var turns []int
	prompts := ""
	for _, c := range cs {
		if c.Kind == segno.CheckpointTurn {
			turns, prompts = append(turns, c.Turn), prompts+c.Prompt
			if c.Files != (segno.Counts{Modified: 1}) {
				t.Errorf("turn %d changed %+v", c.Turn, c.Files)
			}
		}
	}
	if len(turns) != 3 || turns[1] != 2 || turns[2] != 3 || prompts != "ABC" || head.Turn != 3 {
		t.Fatalf("the turns are %v %q, the head %+v", turns, prompts, head)
	}
	g.wantFilesOfHead()
	g.checkStore()
	if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 3}); err != nil {
		t.Fatal(err)
	}
	if got := g.files(); got != "a \"0\"\nmine \"C\"\n" {
		t.Errorf("undo of all three left\n%s", got)
	}
}

// TestAFirstTurnUnderABusyStore begins a thread that cannot be written yet.
func TestAFirstTurnUnderABusyStore(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	err := g.withTimeline(nil, func(context.Context, *local.Store, *timeline.Timeline) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	g.place.StoreWait = 20 * time.Millisecond
	src := segno.Source{Session: "session", Dir: g.project}
	if err := g.begin("A", src); err != nil {
		t.Fatal(err)
	}
	g.write("a", "1")
	release := g.holdWriter()
	busy := g.end(nil, "A")
	release()
	if busy != nil {
		if err := g.end(nil, "A"); err != nil {
			t.Fatal(err)
		}
	}
	g.runNextCommand()
	if cs, head := g.checkpoints(); head.Turn != 1 {
		t.Fatalf("the turn is lost: %+v", cs)
	}
	g.checkStore()
}
