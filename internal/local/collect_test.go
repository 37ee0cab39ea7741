package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// TestGcKeepsObjectsOfDeferredTurns collects hours after turns ended while another process held the store's
// writer. The objects that the turns staged are kept, and the deferred commits succeed.
func TestGcKeepsObjectsOfDeferredTurns(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 3<<20) // too much for the commit: it waits in a pack
	if _, err := rand.NewChaCha8([32]byte{}).Read(big); err != nil {
		t.Fatal(err)
	}
	g.place.StoreWait = 20 * time.Millisecond
	release := g.holdWriter()
	src := segno.Source{Session: "session", Dir: g.project}
	if err := g.begin("B", src); err != nil {
		t.Fatal(err)
	}
	g.write("big", string(big))
	if err := g.end(nil, "B"); err != nil {
		t.Fatal(err)
	}
	release()
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(3 * time.Hour) }
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		_, err := s.CollectLocked(ctx, segno.CollectPolicy{})
		return err
	})
	if err != nil && segno.KindOf(err) != segno.KindBusy {
		t.Fatal(err)
	}
	g.remove("big")
	if err := g.turn("C", func() { g.write("a", "3") }); err != nil {
		t.Fatal(err)
	}
	g.wantTurns("ABC")
	g.undo(timeline.MoveRequest{Force: true})
	if got, err := os.ReadFile(filepath.Join(g.project, "a")); err != nil || string(got) != "1" {
		t.Errorf("undo of C left a as %q %v", got, err)
	}
	cs, _ := g.checkpoints()
	for _, c := range cs {
		if c.Prompt == "B" {
			if _, err := g.move(nil, timeline.MoveRequest{Verb: segno.VerbRestore, To: c.ID, Scope: timeline.ScopeBoth}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := os.ReadFile(filepath.Join(g.project, "big")); err != nil || string(got) != string(big) {
		t.Errorf("what B made is not there any more: %d bytes, %v", len(got), err)
	}
	g.checkStore()
}

// TestGcWaitsForAWorkspaceAtWork collects while a hook works in a workspace. The collection waits
// for the hook, and returns an error if its deadline passes.
func TestGcWaitsForAWorkspaceAtWork(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, tl *timeline.Timeline) error {
		unlock, err := tl.Spool.Lock(ctx, tl.Workspace.ID())
		if err != nil {
			return err
		}
		defer unlock()
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err = s.CollectLocked(short, segno.CollectPolicy{})
		return err
	})
	if kind := segno.KindOf(err); kind != segno.KindBusy && kind != segno.KindCancelled {
		t.Errorf("gc under a workspace at work: %v", err)
	}
	if err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		_, err := s.CollectLocked(ctx, segno.CollectPolicy{})
		return err
	}); err != nil {
		t.Errorf("gc afterwards: %v", err)
	}
	g.checkStore()
}

// TestTheStoreOfALargeDirectoryShrinks records a directory whose first snapshot is stored
// uncompressed. An hour later each step compresses a part. A turn that began before the compression
// and ends after it can be undone.
func TestTheStoreOfALargeDirectoryShrinks(t *testing.T) {
	g := newFixture(t)
	for i := range 56 {
		g.write(fmt.Sprint("big", i), strings.Repeat(fmt.Sprintf("line %d of a large file\n", i), 45_000))
	}
	if err := g.begin("A", segno.Source{Session: "session", Dir: g.project}); err != nil {
		t.Fatal(err)
	}
	packs := filepath.Join(g.place.Store, "packs", "*")
	size := func() (sum int64) {
		names, err := filepath.Glob(packs)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			fi, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			sum += fi.Size()
		}
		return sum
	}
	first := size()
	if first < 8<<20 {
		t.Fatalf("the packs have only %d bytes", first)
	}
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error { return s.CompressSome(ctx) })
	if err != nil || size() != first {
		t.Fatalf("the packs have %d bytes instead of %d: %v", size(), first, err)
	}
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(2 * time.Hour) }
	last := size()
	steps := 0
	for ; ; steps++ {
		if err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error { return s.CompressSome(ctx) }); err != nil {
			t.Fatal(err)
		}
		if now := size(); now < last {
			last = now
			continue
		}
		break
	}
	if steps < 2 || last > first/4 {
		t.Fatalf("after %d steps the packs have %d of %d bytes", steps, last, first)
	}
	g.write("big7", "changed")
	if err := g.end(nil, "A"); err != nil {
		t.Fatal(err)
	}
	g.undo(timeline.MoveRequest{Force: true})
	got, err := os.ReadFile(filepath.Join(g.project, "big7"))
	if err != nil || !strings.HasPrefix(string(got), "line 7 ") {
		t.Fatalf("undo left big7 with %d bytes, %v", len(got), err)
	}
	g.checkStore()
}

// TestGcKeepsADirectoryWhoseObjectIsAlsoAFile records a project that contains the objects of a store/file store, as a Go
// program with files writes them: one of these files has exactly the bytes with which segno's own store saves src. A
// collection keeps the files of src, and the turn after it can be undone.
func TestGcKeepsADirectoryWhoseObjectIsAlsoAFile(t *testing.T) {
	g := newFixture(t)
	g.write("src/main", "0")
	if err := g.turn("A", func() { g.write("src/main", "1") }); err != nil {
		t.Fatal(err)
	}
	if err := g.turn("B", func() { g.write(".agent/objects/src", g.directoryObject()) }); err != nil {
		t.Fatal(err)
	}
	if err := g.turn("C", func() { g.write("src/main", "2") }); err != nil {
		t.Fatal(err)
	}
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(3 * time.Hour) }
	if err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		_, err := s.CollectLocked(ctx, segno.CollectPolicy{Trace: s.NewTrace()})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	g.checkStore()
	g.undo(timeline.MoveRequest{})
	if got, err := os.ReadFile(filepath.Join(g.project, "src/main")); err != nil || string(got) != "1" {
		t.Errorf("undo of C left src/main as %q, %v", got, err)
	}
}

// TestGcKeepsWhatAnInterruptedMoveWrites interrupts an undo that merges a file, as at the loss of a disk, and collects while the
// directory is away. When the directory is back, the next command completes the undo.
func TestGcKeepsWhatAnInterruptedMoveWrites(t *testing.T) {
	g := newFixture(t)
	lines := func(first, last string) string { return first + "\n" + strings.Repeat("same\n", 8) + last + "\n" }
	g.write("merged", lines("0", "0"))
	if err := g.turn("A", func() { g.write("merged", lines("of the turn", "0")) }); err != nil {
		t.Fatal(err)
	}
	g.write("merged", lines("of the turn", "of the user"))
	hasPlan := func() bool {
		plans, err := filepath.Glob(filepath.Join(g.place.Store, "journal", "*.json"))
		return err == nil && len(plans) > 0
	}
	for n := 0; !hasPlan(); n++ {
		faults := faultfs.FailAt(n)
		faults.Forever = true
		if _, err := g.move(faults.Wrap(vfs.OS), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1}); err == nil {
			t.Fatal("no failure left a plan")
		}
	}
	away := g.project + " of another disk"
	if err := os.Rename(g.project, away); err != nil {
		t.Fatal(err)
	}
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(3 * time.Hour) }
	s, err := g.place.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.CollectLocked(t.Context(), segno.CollectPolicy{Trace: s.NewTrace()})
	if err := errors.Join(err, s.Close(), os.Rename(away, g.project)); err != nil {
		t.Fatal(err)
	}
	g.runNextCommand()
	if got, err := os.ReadFile(filepath.Join(g.project, "merged")); err != nil || string(got) != lines("0", "of the user") {
		t.Errorf("the file is %q, %v", got, err)
	}
	g.checkStore()
}

// directoryObject returns the object of the only directory in the newest checkpoint.
func (g *fixture) directoryObject() (object string) {
	g.Helper()
	cs, _ := g.checkpoints()
	newest := cs[len(cs)-1].Workspace
	err := g.withTimeline(nil, func(ctx context.Context, s *local.Store, _ *timeline.Timeline) error {
		return new(workspace.Tracer).Trace(ctx, s.Objects(), *newest, func(name segno.Hash) bool {
			data, err := s.Objects().Get(ctx, name)
			if err != nil {
				g.Error(err)
			}
			if name != newest.Tree && strings.HasPrefix(string(data), "segno tree ") {
				object = string(data)
			}
			return true
		})
	})
	if err != nil || object == "" {
		g.Fatal("no object of a directory: ", err)
	}
	return object
}

// TestGcWithDeferredTurnsOfADirectoryThatIsGone collects while the turn of the only workspace is deferred and its directory is away.
// When the directory is back, the turn is committed and can be undone.
func TestGcWithDeferredTurnsOfADirectoryThatIsGone(t *testing.T) {
	g := newFixture(t)
	g.write("a", "0")
	if err := g.turn("A", func() { g.write("a", "1") }); err != nil {
		t.Fatal(err)
	}
	wait := g.place.StoreWait
	g.place.StoreWait = 20 * time.Millisecond
	release := g.holdWriter()
	if err := g.turn("B", func() { g.write("a", "2") }); err != nil {
		t.Fatal(err)
	}
	release()
	g.place.StoreWait = wait
	away := g.project + " of another disk"
	if err := os.Rename(g.project, away); err != nil {
		t.Fatal(err)
	}
	now := g.place.Now
	g.place.Now = func() time.Time { return now().Add(3 * time.Hour) }
	for range 2 {
		s, err := g.place.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.CollectLocked(t.Context(), segno.CollectPolicy{Trace: s.NewTrace()})
		for thread, err := range s.Threads(t.Context(), segno.ThreadQuery{}) {
			if err == nil {
				_, err = s.PurgeThread(t.Context(), thread.ID)
			}
			if segno.KindOf(err) != segno.KindBusy {
				t.Errorf("a purge while a turn is deferred: %v", err)
			}
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Errorf("gc: %v", err)
		}
	}
	if err := os.Rename(away, g.project); err != nil {
		t.Fatal(err)
	}
	g.runNextCommand()
	g.wantTurns("AB")
	g.wantNoneDeferred()
	g.checkStore()
	g.undo(timeline.MoveRequest{})
	if got := g.files(); got != "a \"1\"\n" {
		t.Errorf("the undo of the deferred turn left\n%s", got)
	}
}
