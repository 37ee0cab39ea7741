package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// TestGcWhileADirectoryIsRegistered collects while an agent begins to work in a directory that segno did not know when the
// collection began. The directory has a file whose content is in the store, where nothing reaches it. The agent changes the file
// while the collection holds the writer of the store. The turn is recorded, and an undo brings the file back.
func TestGcWhileADirectoryIsRegistered(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	const content = "a file that a deleted thread had, too"
	if err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		b := s.Objects().Batch()
		defer b.Close()
		_, err := b.Put(ctx, []byte(content))
		if err != nil {
			return err
		}
		staged, err := b.Stage(ctx)
		return errors.Join(err, s.Objects().Keep(ctx, staged))
	}); err != nil {
		t.Fatal(err)
	}
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(3 * time.Hour) }

	h := &fixture{TB: t, place: g.place, project: filepath.Join(filepath.Dir(g.project), "new")}
	h.place.StoreWait = 20 * time.Millisecond
	src := segno.Source{Session: "new", Dir: h.project}
	begin := func(ctx context.Context, key string) error {
		return withTimelineAt(ctx, h.place, h.project, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
			_, err := tl.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(key), Agent: "test", Source: src, Text: key})
			return err
		})
	}
	end := func(ctx context.Context, key string) error {
		return withTimelineAt(ctx, h.place, h.project, func(ctx context.Context, _ *local.Store, tl *timeline.Timeline) error {
			_, err := tl.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "test", Source: src})
			return err
		})
	}
	h.write("b", "0")
	isRegistered, isBegun := false, false
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		isFirst, trace := true, s.NewTrace()
		_, err := s.CollectLocked(ctx, segno.CollectPolicy{Trace: func(ctx context.Context, o segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
			switch {
			case isFirst: // other processes can write now
				isFirst = false
				if isRegistered = begin(short, "B") == nil; isRegistered {
					h.write("b", "1")
					if err := end(short, "B"); err != nil {
						return err
					}
					h.write("old", content)
				}
			case c.Prompt == "B" && !isBegun: // the collection holds the writer
				if err := begin(short, "C"); err != nil {
					return err
				}
				isBegun = true
			}
			return trace(ctx, o, c, visit)
		}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !isRegistered { // it waited for the collection
		if err := errors.Join(begin(t.Context(), "B"), end(t.Context(), "B")); err != nil {
			t.Fatal(err)
		}
		h.write("old", content)
	}
	if !isBegun {
		if err := begin(t.Context(), "C"); err != nil {
			t.Fatal(err)
		}
	}
	h.write("old", "changed")
	if err := end(t.Context(), "C"); err != nil {
		t.Fatal(err)
	}
	h.undo(timeline.MoveRequest{})
	if got, err := os.ReadFile(filepath.Join(h.project, "old")); err != nil || string(got) != content {
		t.Errorf("the undo left %q, %v", got, err)
	}
	h.checkStore()
}
