package local_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/dalsegno/segno/timeline"
)

// TestAKilledUndoOfAFork ends the process between the two writes of an undo of a fork. The fork's
// directory has no thread then, and the same undo completes.
func TestAKilledUndoOfAFork(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "A") }); err != nil {
		t.Fatal(err)
	}
	_, head := g.checkpoints()
	dir := filepath.Join(filepath.Dir(g.project), "fork")
	var op segno.Operation
	err := g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) (err error) {
		if _, err = tl.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: head.Head, Dir: dir}); err == nil {
			op, err = tl.FindOperation(ctx, "")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	undo := func(commits int) error {
		return g.withTimeline(nil, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
			tl.Store = &dyingStore{tl.Store.(*sqlite.Store), commits}
			return tl.UndoOperation(ctx, op)
		})
	}
	if err := undo(0); err == nil {
		t.Fatal("the undo was not interrupted")
	}
	current := func() (thread segno.ThreadID) {
		err := withTimelineAt(t.Context(), g.place, dir, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) (err error) {
			thread, err = tl.CurrentThread(ctx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return thread
	}
	if got := current(); got != "" {
		t.Errorf("the directory is at thread %s, which was deleted", got)
	}
	if err := undo(9); err != nil {
		t.Errorf("the undo again: %v", err)
	}
	if got := current(); got != "" {
		t.Errorf("the directory is at thread %s, which was deleted", got)
	}
	g.checkStore()
}
