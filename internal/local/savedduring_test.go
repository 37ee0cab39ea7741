package local_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestAFileThatIsSavedDuringAMove saves a file again right after an undo has written it, before the undo reads the file back. The undo is
// made, and the file is the user's, also for the undo of the undo.
func TestAFileThatIsSavedDuringAMove(t *testing.T) {
	g := newFixture(t)
	g.write("a", "1")
	g.write("b", "1")
	if err := g.turn("one", func() { g.write("a", "2"); g.write("b", "2") }); err != nil {
		t.Fatal(err)
	}
	saves := func(done, total int64) {
		if done*3 == total*2 { // everything is written
			g.write("b", "mine")
		}
	}
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		rec, err := s.Register(ctx, g.project)
		if err != nil {
			return err
		}
		tl, err := s.Timeline(rec, &local.Progress{Applied: saves})
		if err != nil {
			return err
		}
		_, err = tl.Move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.files(); got != "a \"1\"\nb \"mine\"\n" {
		t.Errorf("after the undo: %s", got)
	}
	moved, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbOpUndo})
	if err != nil {
		t.Fatal(err)
	}
	if c := moved.Plan.Conflicts; len(c) != 1 || c[0].Path != "b" {
		t.Errorf("the conflicts of the op undo are %v", c)
	}
	if got := g.files(); got != "a \"2\"\nb \"mine\"\n" {
		t.Errorf("after its undo: %s", got)
	}
	g.checkStore()
}

// TestACompletedMoveNamesWhatItLeft interrupts an undo, and changes a file that it has not written. The next undo completes it, and its
// error names the file.
func TestACompletedMoveNamesWhatItLeft(t *testing.T) {
	g := newFixture(t)
	for _, name := range []string{"a", "b", "c"} {
		g.write(name, "1")
	}
	err := g.turn("one", func() {
		for _, name := range []string{"a", "b", "c"} {
			g.write(name, "2")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	undo := timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}
	err = g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		rec, err := s.Register(ctx, g.project)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		tl, err := s.Timeline(rec, &local.Progress{Applied: func(done, total int64) {
			if done*3 > total { // the first file is written
				cancel()
			}
		}})
		if err != nil {
			return err
		}
		_, err = tl.Move(ctx, undo, nil)
		return err
	})
	if err == nil {
		t.Fatal("the undo was not interrupted")
	}
	g.write("c", "mine")
	_, err = g.move(nil, undo)
	if segno.KindOf(err) != segno.KindConflict || !strings.HasSuffix(err.Error(), "without paths that changed since: c") {
		t.Errorf("the error is %v", err)
	}
	if got := g.files(); got != "a \"1\"\nb \"1\"\nc \"mine\"\n" {
		t.Errorf("the files are %s", got)
	}
	g.checkStore()
}
