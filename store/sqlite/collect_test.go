package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
)

// traceState is a Trace that visits the objects that a checkpoint names, and nextStep none.
func traceState(_ context.Context, _ segno.Objects, c segno.Checkpoint, visit func(segno.Hash) bool) error {
	for _, h := range c.Refs() {
		visit(h)
	}
	return nil
}

// commitPackedTurns puts count objects of 100 KB into one pack and commits a turn for each wanted object.
func commitPackedTurns(t *testing.T, s *Store, head segno.Head, count int, wanted ...int) ([]segno.Hash, segno.Head) {
	t.Helper()
	b := s.Objects().Batch()
	r := testRand(uint64(sizeOf(t, s.dir))) // no two packs are equal
	var names []segno.Hash
	for range count {
		name, err := b.Put(t.Context(), bulk(r)[:100_000])
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(staged.Packs) != 1 {
		t.Fatalf("%d packs", len(staged.Packs))
	}
	if err := s.Objects().Keep(t.Context(), staged); err != nil {
		t.Fatal(err)
	}
	for _, i := range wanted {
		head = pinState(t, s, head, names[i])
	}
	return names, head
}

func pinState(t *testing.T, s *Store, head segno.Head, name segno.Hash) segno.Head {
	t.Helper()
	head, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "thread", Parent: head.Head,
		Expect:     head.Head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, State: &segno.Document{Type: "x", Data: name}}})
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func packNames(t *testing.T, s *Store) (names []string) {
	t.Helper()
	files, err := os.ReadDir(s.packs.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

func collect(t *testing.T, s *Store) segno.Collection {
	t.Helper()
	done, err := s.Collect(t.Context(), segno.CollectPolicy{Trace: traceState})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestCollectPacks verifies that a collection deletes unused packs, rewrites mostly unused ones, and keeps the
// others.
func TestCollectPacks(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	clock := storetest.NewClock()
	s := openIn(t, dir, Options{Clock: clock.Now})
	defer s.Close()
	dead, head := commitPackedTurns(t, s, head, 12)
	mostly, head := commitPackedTurns(t, s, head, 12, 3, 7)
	half, _ := commitPackedTurns(t, s, head, 12, 0, 1, 2, 3, 4, 5, 6)
	before := packNames(t, s)
	reader := openIn(t, dir, Options{Clock: clock.Now}) // has the old packs open
	defer reader.Close()
	get := func(s *Store, name segno.Hash) error {
		data, err := s.Objects().Get(t.Context(), name)
		if err == nil && segno.HashOf(data) != name {
			t.Fatal("other bytes")
		}
		return err
	}
	if err := get(reader, mostly[3]); err != nil {
		t.Fatal(err)
	}
	if done := collect(t, s); done.Objects != 0 || !slices.Equal(packNames(t, s), before) {
		t.Fatalf("young: %+v, %v", done, packNames(t, s))
	}
	clock.Advance(2 * time.Hour)
	done := collect(t, s)
	if done.Objects != 12+10+5 || done.Kept != 9 || done.Bytes < 27*100_000 {
		t.Fatalf("%+v", done)
	}
	after := packNames(t, s)
	if len(after) != 2 {
		t.Fatalf("the packs are %v", after)
	}
	for _, store := range []*Store{s, reader} {
		for _, name := range []segno.Hash{mostly[3], mostly[7], half[0], half[6]} {
			if err := get(store, name); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []segno.Hash{dead[0], mostly[0], half[11]} {
			wantKind(t, get(store, name), segno.KindNotFound)
		}
	}
	checkClean(t, s)
	if size := sizeOf(t, s.packs.dir); size > 1_500_000 {
		t.Fatalf("the packs still have %d bytes", size)
	}
	if done := collect(t, s); done.Objects != 0 || !slices.Equal(packNames(t, s), after) {
		t.Fatalf("again: %+v", done)
	}
}

// TestSweep verifies that a collection removes the packs of batches that were never committed, once they are
// old, and no other file.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	seed(t, dir)
	clock := storetest.NewClock()
	s := openIn(t, dir, Options{Clock: clock.Now})
	defer s.Close()
	abandoned := func() {
		b := s.Objects().Batch()
		if _, err := b.Put(t.Context(), bulk(testRand(1))); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Stage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	abandoned()
	clock.Advance(61 * time.Minute)
	abandoned()
	writeFile(t, filepath.Join(s.packs.dir, "notes.txt"), []byte("somebody's"))
	writeFile(t, filepath.Join(s.packs.dir, "torn.pack"), []byte("seg"))
	writeFile(t, filepath.Join(dir, "index"), []byte("another package's"))
	past := clock.Now().Add(-100 * 24 * time.Hour)
	if err := os.Chtimes(filepath.Join(s.packs.dir, "torn.pack"), past, past); err != nil {
		t.Fatal(err)
	}
	collect(t, s)
	if names := packNames(t, s); len(names) != 2 || !slices.Contains(names, "notes.txt") {
		t.Fatalf("left are %v", names)
	}
	clock.Advance(61 * time.Minute)
	collect(t, s)
	if names := packNames(t, s); !slices.Equal(names, []string{"notes.txt"}) {
		t.Fatalf("left are %v", names)
	}
	readFile(t, filepath.Join(dir, "index"))
}

// TestCollectBesideCommits collects while other goroutines commit objects that were unused until then. A
// commit that succeeds must have all its objects.
func TestCollectBesideCommits(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	clock := storetest.NewClock()
	s := openIn(t, dir, Options{Clock: clock.Now})
	defer s.Close()
	other := openIn(t, dir, Options{Clock: clock.Now})
	defer other.Close()
	var group sync.WaitGroup
	group.Go(func() {
		for range 30 {
			clock.Advance(2 * time.Hour)
			if _, err := other.Collect(t.Context(), segno.CollectPolicy{Trace: traceState}); err != nil {
				t.Errorf("collect: %v", err)
			}
		}
	})
	lost := 0
	for i := range 120 {
		b := s.Objects().Batch()
		name, err := b.Put(t.Context(), fmt.Appendf(nil, "object %d", i%7))
		if err != nil {
			t.Fatal(err)
		}
		staged, err := b.Stage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 { // so that it is old for the next collection
			if err := s.Objects().Keep(t.Context(), staged); err != nil && segno.KindOf(err) != segno.KindNotFound {
				t.Fatal(err)
			}
			continue
		}
		c := segno.Commit{ID: segno.CommitID(fmt.Sprint("c", i)), Thread: "thread", Parent: head.Head, Expect: head.Head, Staged: staged,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, State: &segno.Document{Type: "x", Data: name}}}
		if len(staged.Objects) == 0 {
			t.Fatal("nothing was staged, not even what was found")
		}
		next, err := s.Commit(t.Context(), c)
		if segno.KindOf(err) == segno.KindNotFound {
			lost++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		// Amend the commit, so that the next collection drops it.
		amend := segno.Commit{ID: c.ID + "'", Thread: "thread", Parent: head.Head, Expect: next.Head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Amends: c.ID}}
		if head, err = s.Commit(t.Context(), amend); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	t.Logf("%d commits came too late for their objects", lost)
	checkClean(t, s)
}

// TestCollectFaults fails each operation of a collection. The collection must succeed or return an error, and
// a later one must complete.
func TestCollectFaults(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		head := seed(t, dir)
		clock := storetest.NewClock()
		s := openIn(t, dir, Options{Clock: clock.Now})
		_, head = commitPackedTurns(t, s, head, 12)
		mostly, _ := commitPackedTurns(t, s, head, 12, 3)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		clock.Advance(2 * time.Hour)
		faults := faultfs.FailAt(n)
		s = openIn(t, dir, Options{Clock: clock.Now, FS: faults.Wrap(vfs.OS)})
		_, err := s.Collect(t.Context(), segno.CollectPolicy{Trace: traceState})
		if faults.Fired() && err == nil {
			t.Fatalf("operation %d (%s) failed and nobody was told", n, faults.Trace()[n])
		}
		checkClean(t, s)
		if _, err := s.Objects().Get(t.Context(), mostly[3]); err != nil {
			t.Fatalf("operation %d: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		clock.Advance(2 * time.Hour)
		s = openIn(t, dir, Options{Clock: clock.Now})
		collect(t, s)
		checkClean(t, s)
		if names := packNames(t, s); len(names) != 1 {
			t.Fatalf("operation %d: left are %v", n, names)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !faults.Fired() {
			return
		}
	}
}

// TestEraseRemovesACopyInAnotherPack stages the same object in two batches at once, so that two packs have it. The
// database refers to one of them.
func TestEraseRemovesACopyInAnotherPack(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	secret, other := bulk(testRand(1)), bulk(testRand(2))
	var batches []segno.Batch
	for _, objects := range [][][]byte{{secret}, {secret, other}} {
		b := s.Objects().Batch()
		for _, data := range objects {
			if _, err := b.Put(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
		batches = append(batches, b)
	}
	for i, data := range [][]byte{secret, other} {
		staged, err := batches[i].Stage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		thread := segno.ThreadID([]string{"erased", "kept"}[i])
		if _, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID(thread), Thread: thread, Create: &segno.Thread{ID: thread},
			Staged: staged, Checkpoint: &segno.Checkpoint{State: &segno.Document{Type: "x", Data: segno.HashOf(data)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context(), "erased"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Erase(t.Context(), segno.CollectPolicy{Trace: traceState}); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(s.packs.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		if bytes.Contains(readFile(t, pack), secret[:1000]) {
			t.Errorf("%s has the erased object", filepath.Base(pack))
		}
	}
	if got, err := s.Objects().Get(t.Context(), segno.HashOf(other)); err != nil || !bytes.Equal(got, other) {
		t.Errorf("the object of the other thread: %d bytes, %v", len(got), err)
	}
}
