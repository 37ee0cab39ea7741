package timeline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/sqlite"
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

// TestSaveWorld saves a run, continues from its middle in another world, and must end in the same state as
// the uninterrupted run.
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

	again := company.New(0) // the document contains the seed
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

// randomWorld is a world whose document hardly compresses.
type randomWorld struct {
	segno.World
	data []byte
}

func (w *randomWorld) Snapshot(context.Context) (segno.WorldSnapshot, error) {
	return segno.WorldSnapshot{Document: w.data}, nil
}

func (w *randomWorld) Load(_ context.Context, data []byte) error {
	w.data = data
	return nil
}

// TestSaveWorldFaults fails a sample of the operations of the file system during a save. Afterwards the head
// of the thread must be a checkpoint whose world loads, and the next save must succeed.
func TestSaveWorldFaults(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	r := rand.New(rand.NewPCG(soak.Seed(t), 0))
	random := func() *randomWorld {
		w := &randomWorld{company.New(1), make([]byte, 1<<21)} // large enough for a pack
		for i := range w.data {
			w.data[i] = byte(r.IntN(256))
		}
		return w
	}
	open := func(dir string, fsys vfs.FS) (*sqlite.Store, *timeline.Timeline) {
		t.Helper()
		store, err := sqlite.Open(t.Context(), filepath.Join(dir, "segno.db"), sqlite.Options{FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		return store, timeline.Open(timeline.Config{Store: store, Now: time.Now})
	}
	w := random()
	run := func(faults *faultfs.Faults) {
		t.Helper()
		dir := t.TempDir()
		store, tl := open(dir, vfs.OS)
		first, err := tl.SaveWorld(t.Context(), timeline.WorldSave{World: random()})
		if err != nil {
			t.Fatal(err)
		}
		store.Close()
		store, tl = open(dir, faults.Wrap(vfs.OS))
		second, saveErr := tl.SaveWorld(t.Context(), timeline.WorldSave{Thread: first.Thread, World: w})
		store.Close()
		store, tl = open(dir, vfs.OS)
		defer store.Close()
		head, err := store.Head(t.Context(), first.Thread)
		if err != nil {
			t.Fatal(err)
		}
		if saveErr == nil && head.Head != second.ID {
			t.Errorf("a save succeeded, and the head is %s, not %s", head.Head, second.ID)
		}
		if err := tl.LoadWorld(t.Context(), head.Head, random()); err != nil {
			t.Errorf("after %v the head does not load: %v", saveErr, err)
		}
		third, err := tl.SaveWorld(t.Context(), timeline.WorldSave{Thread: first.Thread, World: w})
		if err != nil {
			t.Fatalf("after %v: %v", saveErr, err)
		}
		again := random()
		if err := tl.LoadWorld(t.Context(), third.ID, again); err != nil || document(t, again) != document(t, w) {
			t.Errorf("after %v the world differs: %v", saveErr, err)
		}
	}
	complete := faultfs.FailAt(-1)
	run(complete)
	trace := complete.Trace()
	if len(trace) == 0 {
		t.Fatal("the document is not in a pack, so nothing can fail")
	}
	for _, n := range faultfs.Sample(t, trace) {
		for _, forever := range []bool{false, true} {
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			run(faults)
		}
	}
}
