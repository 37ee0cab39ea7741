package timeline_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/world"
	"github.com/dalsegno/segno/world/company"
)

// playTicks lets two players act in a company.
func playTicks(t *testing.T, w segno.World, ticks int) {
	t.Helper()
	for range ticks {
		if err := world.Play(t.Context(), w, []string{"Ada", "Bo"}, company.Player(), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func document(t *testing.T, w segno.World) string {
	t.Helper()
	s, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(s.Document)
}

// TestSaveWorld saves a run, goes on from its middle in another world, and ends where the
// uninterrupted run ends.
func TestSaveWorld(t *testing.T) {
	ctx, store := t.Context(), memory.New(nil)
	tl := timeline.Open(timeline.Config{Store: store, Now: time.Now})
	w := company.New(5)
	for _, name := range []string{"Ada", "Bo"} {
		if err := w.Join(ctx, name, name); err != nil {
			t.Fatal(err)
		}
	}
	playTicks(t, w, 10)
	first, err := tl.SaveWorld(ctx, timeline.WorldSave{Title: "a run", World: w, Label: "tick 10", Meta: map[string]string{"tick": "10"}})
	if err != nil {
		t.Fatal(err)
	}
	playTicks(t, w, 10)
	second, err := tl.SaveWorld(ctx, timeline.WorldSave{Thread: first.Thread, World: w, Members: map[string]segno.CommitID{"Ada": first.ID}})
	if err != nil {
		t.Fatal(err)
	}
	if second.Parent != first.ID || second.Kind != segno.CheckpointCut || second.World.Type != "company/1" || second.Members["Ada"] != first.ID {
		t.Errorf("the second checkpoint is %+v", second)
	}
	head, err := store.Head(ctx, first.Thread)
	if err != nil || head.Head != second.ID || head.Tip != second.ID {
		t.Errorf("the head is %+v, %v", head, err)
	}

	again := company.New(0) // the seed is in the document
	if err := tl.LoadWorld(ctx, first.ID, again); err != nil {
		t.Fatal(err)
	}
	playTicks(t, again, 10)
	if a, b := document(t, w), document(t, again); a != b {
		t.Errorf("the resumed run ends with\n%s\nnot\n%s", b, a)
	}
	if err := tl.LoadWorld(ctx, second.ID, again); !errors.Is(err, segno.KindRefused) {
		t.Errorf("a used world loads: %v", err)
	}

	state, cleanup, err := (&pack.Packer{Store: store}).State(ctx, first.ID, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cleanup() }()
	if state.World == nil || state.World.Info.Format != "company/1" || state.World.Info.SimTime != "216000" ||
		state.World.Info.Hash != w.Info().Content.String() || len(state.Agents) != 0 || state.Cut.Consistency != "quiet" {
		t.Errorf("the archive has %+v, %+v", state.World, state)
	}
}

func TestSaveWorldRefuses(t *testing.T) {
	ctx, store := t.Context(), segno.Store(memory.New(nil))
	tl := timeline.Open(timeline.Config{Store: store, Now: time.Now})
	w := company.New(5)
	first, err := tl.SaveWorld(ctx, timeline.WorldSave{World: w})
	if err != nil {
		t.Fatal(err)
	}
	leaser, ok := store.(segno.Leaser)
	if !ok {
		t.Fatal("the store has no leases")
	}
	acquire := func() segno.Lease {
		t.Helper()
		l, err := leaser.Acquire(ctx, segno.Lease{Thread: first.Thread, Owner: segno.NewID(), Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	old := acquire()
	if err := leaser.Release(ctx, old); err != nil {
		t.Fatal(err)
	}
	now := acquire()
	if _, err := tl.WithLease(now).SaveWorld(ctx, timeline.WorldSave{Thread: first.Thread, World: w}); err != nil {
		t.Errorf("the holder of the lease cannot save: %v", err)
	}
	if _, err := tl.WithLease(old).SaveWorld(ctx, timeline.WorldSave{Thread: first.Thread, World: w}); !errors.Is(err, segno.KindFenced) {
		t.Errorf("a runner whose lease has passed to another saves: %v", err)
	}
	if _, err := tl.SaveWorld(ctx, timeline.WorldSave{Thread: "none", World: w}); !errors.Is(err, segno.KindNotFound) {
		t.Errorf("a thread that does not exist: %v", err)
	}
	if err := tl.LoadWorld(ctx, "none", company.New(1)); !errors.Is(err, segno.KindNotFound) {
		t.Errorf("a checkpoint that does not exist: %v", err)
	}
}
