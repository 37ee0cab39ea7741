package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/storetest"
)

// text returns data that compresses well and differs for each n.
func text(n, size int) []byte {
	line := fmt.Sprintf("line %d of a file that a first snapshot stores\n", n)
	return bytes.Repeat([]byte(line), size/len(line)+1)
}

// plainStore writes a few plain packs and returns their objects.
func plainStore(t *testing.T, s *Store, packs int) (all map[segno.Hash][]byte, staged segno.Staged) {
	t.Helper()
	all = map[segno.Hash][]byte{}
	for i := range packs {
		var p plainPacks
		for j := range 3 {
			data := text(10*i+j, 20_000)
			name := segno.HashOf(data)
			if err := p.add(s, s.records.ObjectName(name), data); err != nil {
				t.Fatal(err)
			}
			all[name] = data
		}
		names, err := p.finish(nil)
		if err != nil {
			t.Fatal(err)
		}
		staged.Packs = append(staged.Packs, names...)
	}
	if err := s.Objects().Keep(t.Context(), staged); err != nil {
		t.Fatal(err)
	}
	return all, staged
}

func wantObjects(t *testing.T, s *Store, all map[segno.Hash][]byte) {
	t.Helper()
	for name, want := range all {
		got, err := s.Objects().Get(t.Context(), name)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("object %s: %d bytes instead of %d, %v", name, len(got), len(want), err)
		}
	}
}

func plainNames(t *testing.T, s *Store) (plain []string) {
	t.Helper()
	for _, name := range packNames(t, s) {
		if strings.HasSuffix(name, plainSuffix+packSuffix) {
			plain = append(plain, name)
		}
	}
	return plain
}

// TestLargeBatchIsPlainThenCompressed stores a large batch from several goroutines, and compresses it step by
// step once it is an hour old.
func TestLargeBatchIsPlainThenCompressed(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for what, key := range map[string][]byte{"open": nil, "sealed": storetest.SealedKey()} {
		t.Run(what, func(t *testing.T) {
			clock := storetest.NewClock()
			o := Options{Clock: clock.Now, Key: key}
			s := openIn(t, t.TempDir(), o)
			defer s.Close()
			const size, count = 256 << 10, (maxCompressed + 4*plainPackSize) / (256 << 10)
			b := s.Objects().Batch()
			defer b.Close()
			all := map[segno.Hash][]byte{}
			var mu sync.Mutex
			var group sync.WaitGroup
			for g := range 4 {
				group.Go(func() {
					for i := g; i < count; i += 4 {
						data := text(i, size)
						name, err := b.Put(t.Context(), data)
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						all[name] = data
						mu.Unlock()
					}
				})
			}
			group.Wait()
			staged, err := b.Stage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Objects().Keep(t.Context(), staged); err != nil {
				t.Fatal(err)
			}
			young := plainNames(t, s)
			if len(young) < 4 {
				t.Fatalf("the plain packs are %v", young)
			}
			wantObjects(t, s, all)
			if err := s.CompressPacks(t.Context(), -1); err != nil || len(plainNames(t, s)) != len(young) {
				t.Fatalf("after compressing young packs: %v, %v", plainNames(t, s), err)
			}
			other := openIn(t, s.dir, o)
			defer other.Close()
			wantObjects(t, other, all) // it has the old packs open
			before := sizeOf(t, s.packs.dir)
			clock.Advance(2 * time.Hour)
			if err := s.CompressPacks(t.Context(), 1); err != nil || len(plainNames(t, s)) != len(young)-1 {
				t.Fatalf("after one step: %v, %v", plainNames(t, s), err)
			}
			if err := s.CompressPacks(t.Context(), -1); err != nil || len(plainNames(t, s)) != 0 {
				t.Fatalf("after all steps: %v, %v", plainNames(t, s), err)
			}
			if after := sizeOf(t, s.packs.dir); after > before/4 {
				t.Errorf("the packs have %d bytes after %d", after, before)
			}
			for _, store := range []*Store{s, other} {
				wantObjects(t, store, all)
				checkClean(t, store)
			}
		})
	}
}

// TestOrdinaryBatchIsCompressed verifies that a batch below the limit has no plain pack.
func TestOrdinaryBatchIsCompressed(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	b := s.Objects().Batch()
	for i := range 24 {
		if _, err := b.Put(t.Context(), append(bulk(testRand(uint64(i))), text(i, 100)...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Stage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if plain := plainNames(t, s); len(plain) != 0 {
		t.Fatalf("the plain packs are %v", plain)
	}
}

// TestAbandonedPlainPacksAreRemoved closes a large batch that was not staged.
func TestAbandonedPlainPacksAreRemoved(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	defer s.Close()
	b := s.Objects().Batch()
	for i := range (maxCompressed + 2*plainPackSize) >> 20 {
		if _, err := b.Put(t.Context(), text(i, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if plain := plainNames(t, s); len(plain) == 0 {
		t.Fatal("there are no plain packs")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left := packNames(t, s); len(left) != 0 {
		t.Fatalf("left are %v", left)
	}
}

// TestCommitStagedBeforeCompression commits a batch after its packs were compressed, as at the
// end of a long turn.
func TestCommitStagedBeforeCompression(t *testing.T) {
	dir := t.TempDir()
	head := seed(t, dir)
	clock := storetest.NewClock()
	s := openIn(t, dir, Options{Clock: clock.Now})
	defer s.Close()
	all, staged := plainStore(t, s, 2)
	clock.Advance(2 * time.Hour)
	before, err := s.openStaged(t.Context(), staged) // by a process that is about to commit
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CompressPacks(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), "test", "", func(tx *tx) error { return s.insertStaged(tx, before) }); err != nil {
		t.Fatal(err)
	}
	var needs []segno.Hash
	for name := range all {
		needs = append(needs, name)
	}
	if _, err := s.Commit(t.Context(), segno.Commit{ID: "late", Thread: "thread", Parent: head.Head, Expect: head.Head, Staged: staged,
		Needs:      needs,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 1}}); err != nil {
		t.Fatal(err)
	}
	wantObjects(t, s, all)
	checkClean(t, s)
}

// TestCompressFaults fails each operation of a compression, one at a time and from it on. No object may be
// lost, the caller must receive the error, and a later compression must complete.
func TestCompressFaults(t *testing.T) {
	for _, forever := range []bool{false, true} {
		for n := 0; ; n++ {
			dir := t.TempDir()
			clock := storetest.NewClock()
			s := openIn(t, dir, Options{Clock: clock.Now})
			all, _ := plainStore(t, s, 2)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			clock.Advance(2 * time.Hour)
			faults := faultfs.FailAt(n)
			faults.Forever = forever
			s = openIn(t, dir, Options{Clock: clock.Now, FS: faults.Wrap(vfs.OS)})
			if err := s.CompressPacks(t.Context(), -1); faults.Fired() && err == nil {
				t.Fatalf("operation %d (%s) failed without an error", n, faults.Trace()[n])
			}
			wantObjects(t, s, all)
			checkClean(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openIn(t, dir, Options{Clock: clock.Now})
			if err := s.CompressPacks(t.Context(), -1); err != nil {
				t.Fatal(err)
			}
			wantObjects(t, s, all)
			checkClean(t, s)
			clock.Advance(2 * time.Hour)
			if _, err := s.Collect(t.Context(), segno.CollectPolicy{}); err != nil {
				t.Fatal(err)
			}
			wantObjects(t, s, all)
			if names := packNames(t, s); len(names) != 2 || len(plainNames(t, s)) != 0 {
				t.Fatalf("operation %d: left are %v", n, names)
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

// TestCompressLeavesDamage verifies that a damaged object remains in its pack, and that the other objects and
// packs are compressed.
func TestCompressLeavesDamage(t *testing.T) {
	clock := storetest.NewClock()
	s := openIn(t, t.TempDir(), Options{Clock: clock.Now})
	defer s.Close()
	all, staged := plainStore(t, s, 2)
	x, err := s.packs.index("test", staged.Packs[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.packs.dir+"/"+staged.Packs[0]+packSuffix, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("X"), x.entries[0].at); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	for range 2 {
		if err := s.CompressPacks(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Objects().Get(t.Context(), x.entries[0].name)
	wantKind(t, err, segno.KindCorrupt)
	delete(all, x.entries[0].name)
	wantObjects(t, s, all)
	if names := packNames(t, s); len(names) != 3 || len(plainNames(t, s)) != 1 {
		t.Fatalf("the packs are %v", names)
	}
}

// compressAndPrint compresses one pack after another, two hours after they were written, and prints a line
// before each.
func compressAndPrint(ctx context.Context, dir string) error {
	s, err := openDir(ctx, dir, Options{Clock: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	if err != nil {
		return err
	}
	for range 20 {
		fmt.Println("next")
		if err := s.CompressPacks(ctx, 1); err != nil {
			return err
		}
	}
	return s.Close()
}

// TestKilledWhileCompressing kills a process at random moments while it compresses.
func TestKilledWhileCompressing(t *testing.T) {
	r := rand.New(rand.NewPCG(soak.Seed(t), 0))
	for round := range soak.Count(t, 3, 2000) {
		dir, at, delay := t.TempDir(), r.IntN(6), time.Duration(r.IntN(4000))*time.Microsecond
		s := openIn(t, dir, Options{})
		all, _ := plainStore(t, s, 8)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		cmd, out, said := child(t, dir, "compress")
		for n := 0; out.Scan(); n++ {
			if n == at {
				time.AfterFunc(delay, func() { cmd.Process.Kill() })
			}
		}
		cmd.Wait() // the kill is the error
		if said.Len() > 0 {
			t.Fatalf("round %d: the process printed: %s", round, said)
		}
		clock := func() time.Time { return time.Now().Add(4 * time.Hour) }
		s = openIn(t, dir, Options{Clock: clock})
		wantObjects(t, s, all)
		checkClean(t, s)
		if err := s.CompressPacks(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
		wantObjects(t, s, all)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// readWhilePlain repeatedly reads all objects until no pack is plain, and then again. It prints a line
// after the first round.
func readWhilePlain(ctx context.Context, dir string) error {
	s, err := openDir(ctx, dir, Options{})
	if err != nil {
		return err
	}
	var all []segno.Hash
	err = s.read(ctx, "test", "", func(ctx context.Context, c *conn) error {
		return storedNames(ctx, c, func(stored segno.Hash) error { all = append(all, stored); return nil })
	})
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		files, err := os.ReadDir(s.packs.dir)
		if err != nil {
			return err
		}
		plain := false
		for _, f := range files {
			plain = plain || strings.HasSuffix(f.Name(), plainSuffix+packSuffix)
		}
		for _, name := range all {
			if _, err := s.Objects().Get(ctx, name); err != nil {
				return err
			}
		}
		if round == 0 {
			fmt.Println("ready")
		}
		if !plain {
			return s.Close()
		}
	}
}

// TestReadWhileCompressing makes another process read all objects while they move.
func TestReadWhileCompressing(t *testing.T) {
	dir := t.TempDir()
	clock := storetest.NewClock()
	s := openIn(t, dir, Options{Clock: clock.Now})
	defer s.Close()
	plainStore(t, s, 100) // more packs than the reader keeps open
	clock.Advance(2 * time.Hour)
	cmd, out, said := child(t, dir, "read")
	if !out.Scan() || out.Text() != "ready" {
		t.Fatalf("%q: %s", out.Text(), said)
	}
	if err := s.CompressPacks(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	checkClean(t, s)
}

// TestBatchAfterManyBytes stores objects in batches of one caller. A batch after many bytes is stored plain, and another step
// compresses it.
func TestBatchAfterManyBytes(t *testing.T) {
	clock := storetest.NewClock()
	s := openIn(t, t.TempDir(), Options{Clock: clock.Now})
	defer s.Close()
	all := map[segno.Hash][]byte{}
	for i, test := range []struct {
		after int64
		plain int
	}{{maxCompressed, 1}, {0, 1}, {maxCompressed - 100_000, 1}, {2 * maxCompressed, 2}} {
		o, data := s.Objects().(objects), text(i, 20_000)
		b := o.BatchAfter(test.after)
		name, err := b.Put(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		staged, err := b.Stage(t.Context())
		if err == nil {
			err = o.Keep(t.Context(), staged)
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[name] = data; len(plainNames(t, s)) != test.plain {
			t.Errorf("after %d bytes: %d plain packs, not %d", test.after, len(plainNames(t, s)), test.plain)
		}
	}
	wantObjects(t, s, all)
	clock.Advance(2 * time.Hour)
	if err := s.CompressPacks(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	if names := plainNames(t, s); len(names) > 0 {
		t.Errorf("packs %v are still plain", names)
	}
	wantObjects(t, s, all)
}
