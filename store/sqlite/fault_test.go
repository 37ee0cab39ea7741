package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/storerig"
	"github.com/dalsegno/segno/internal/vfs"
)

// seed creates a store with a thread of one turn and returns its head.
func seed(t *testing.T, dir string) segno.Head {
	t.Helper()
	s := openIn(t, dir, Options{})
	defer s.Close()
	head, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// commitPacks commits enough objects for two packs.
func commitPacks(t *testing.T, s *Store, head segno.Head) (segno.Head, []segno.Hash, error) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(head.Seq)))
	var all segno.Staged
	var names []segno.Hash
	for range 2 {
		b := s.Objects().Batch()
		for i := range 2 {
			data := bulk(r)
			if i == 0 {
				data = data[:10]
			}
			name, err := b.Put(t.Context(), data)
			if err != nil {
				b.Close()
				return head, names, err
			}
			names = append(names, name)
		}
		staged, err := b.Stage(t.Context())
		if err != nil {
			b.Close()
			return head, names, err
		}
		all.Objects, all.Packs = append(all.Objects, staged.Objects...), append(all.Packs, staged.Packs...)
	}
	next, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID(fmt.Sprint("commit ", head.Seq)), Thread: "thread",
		Parent: head.Head, Expect: head.Head,
		Staged: all, Needs: names, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}})
	return next, names, err
}

// TestPackFaults fails each operation of a commit with packs, one at a time and from it on. Afterwards the
// store must have all of the commit or nothing of it, and in the second case the caller must have received
// an error.
func TestPackFaults(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			dir := t.TempDir()
			before := seed(t, dir)
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			s := openIn(t, dir, Options{FS: faults.Wrap(vfs.OS)})
			after, names, err := commitPacks(t, s, before)
			if faults.Fired() && err == nil {
				t.Fatalf("operation %d (%s) failed and nobody was told", n, faults.Trace()[n])
			}
			if err != nil && segno.KindOf(err) != segno.KindIO {
				t.Fatalf("operation %d: the error %v has kind %v", n, err, segno.KindOf(err))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openIn(t, dir, Options{})
			head, readErr := s.Head(t.Context(), "thread")
			if readErr != nil {
				t.Fatal(readErr)
			}
			want := before
			if err == nil {
				want = after
			}
			if head != want {
				t.Fatalf("operation %d: the head is %v instead of %v", n, head, want)
			}
			for _, name := range names {
				if ok, err := s.Objects().Has(t.Context(), name); err != nil || ok != (head == after && after != before) {
					t.Fatalf("operation %d: object %s: %v, %v", n, name, ok, err)
				}
			}
			checkClean(t, s)
			if err != nil { // a second attempt succeeds
				if _, _, err := commitPacks(t, s, head); err != nil {
					t.Fatalf("operation %d, again: %v", n, err)
				}
				checkClean(t, s)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !faults.Fired() {
				break
			}
		}
	}
}

// TestPackOrder verifies the order in which a pack becomes durable: its data before its directory entry, and
// both before the commit.
func TestPackOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	faults := faultfs.FailAt(-1)
	s := openIn(t, dir, Options{FS: faults.Wrap(vfs.OS)})
	defer s.Close()
	b := s.Objects().Batch()
	for range 2 {
		if _, err := b.Put(t.Context(), bulk(rand.New(rand.NewPCG(1, 1)))); err != nil {
			t.Fatal(err)
		}
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(strings.Join(slices.Compact(faults.Trace()), "\n"), staged.Packs[0], "NAME")
	want := strings.Join([]string{
		"mkdir: new", "syncdir: " + filepath.Base(filepath.Dir(dir)), "create: segno.db",
		"mkdir: packs", "syncdir: new", "create: NAME.pack", "write: NAME.pack", "sync: NAME.pack", "syncdir: packs",
	}, "\n")
	if got != want {
		t.Fatalf("the operations are\n%s\n\ninstead of\n%s", got, want)
	}
}

// TestPacksOfABatchShareASync verifies that the compressed pack of a batch and its plain packs become durable together: the
// data of each, and then, once, their directory. A failure of any of these operations is an error of the batch.
func TestPacksOfABatchShareASync(t *testing.T) {
	finish := func(n int) (names, trace []string, fired bool, err error) {
		s := openIn(t, t.TempDir(), Options{})
		defer s.Close()
		faults := faultfs.FailAt(n)
		fsys := faults.Wrap(vfs.OS)
		var k sink
		k.s = s
		if k.pack, err = createPack(fsys, s.packs.dir, newPackName(), time.Now()); err != nil {
			return nil, nil, faults.Fired(), err
		}
		plain, err := createPack(fsys, s.packs.dir, newPackName()+plainSuffix, time.Now())
		if err != nil {
			return nil, nil, faults.Fired(), err
		}
		k.plain.all, k.plain.idle = []*packWriter{plain}, []*packWriter{plain}
		if err = errors.Join(k.pack.addAs(0, segno.Hash{1}, 1, []byte("a")), plain.addAs(0, segno.Hash{2}, 1, []byte("b"))); err == nil {
			names, err = k.Finish(t.Context())
		}
		return names, faults.Trace(), faults.Fired(), err
	}
	names, trace, _, err := finish(-1)
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if !slices.Contains(trace, "sync: "+name+packSuffix) {
			t.Errorf("pack %s is not synced: %q", name, trace)
		}
	}
	if at := slices.Index(trace, "syncdir: packs"); at != len(trace)-1 {
		t.Errorf("the directory is not synced once and last, but at %d: %q", at, trace)
	}
	for n := range trace {
		if _, _, fired, err := finish(n); !fired || err == nil {
			t.Errorf("operation %d, %s: it failed %t, and the batch returned %v", n, trace[n], fired, err)
		}
	}
}

// TestDiskFull makes the disk full at every page of a commit.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	s := openIn(t, dir, Options{})
	defer s.Close()
	pages := func(most string) (n int) {
		c := <-s.writer
		defer func() { s.writer <- c }()
		if _, err := c.sql.ExecContext(t.Context(), "PRAGMA max_page_count="+most); err != nil {
			t.Fatal(err)
		}
		if err := c.sql.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	r := rand.New(rand.NewPCG(5, 6))
	b := s.Objects().Batch()
	data := bulk(r)[:30_000]
	name, err := b.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := segno.Commit{ID: "full", Thread: "thread", Parent: head.Head, Expect: head.Head, Staged: staged, Needs: []segno.Hash{name},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}}
	for range 60 {
		c.Entries = append(c.Entries, step(r, 1))
	}
	refused := 0
	for most := pages("0"); ; most++ {
		pages(fmt.Sprint(most))
		after, err := s.Commit(t.Context(), c)
		if err == nil {
			if after.Head != "full" {
				t.Fatalf("the head is %q", after.Head)
			}
			break
		}
		refused++
		if segno.KindOf(err) != segno.KindIO {
			t.Fatalf("%d pages: %v has kind %v", most, err, segno.KindOf(err))
		}
		if now, err := s.Head(t.Context(), "thread"); err != nil || now != head {
			t.Fatalf("%d pages: the head is %v, %v", most, now, err)
		}
		if ok, err := s.Objects().Has(t.Context(), name); err != nil || ok {
			t.Fatalf("%d pages: an object of a refused commit: %v, %v", most, ok, err)
		}
	}
	if refused < 5 {
		t.Fatalf("only %d commits were refused", refused)
	}
	checkClean(t, s)
}

func TestEraseFaults(t *testing.T) {
	storerig.EraseFaults(t, true, func(t *testing.T, dir string, fsys vfs.FS) segno.Store { return openIn(t, dir, Options{FS: fsys}) },
		func(t *testing.T, dir string) []byte { return rawFiles(t, dir) })
}
