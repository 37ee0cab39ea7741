package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

func objects() []clause {
	return []clause{
		{"round trip", "an object is its bytes, of any kind and length", roundTrip},
		{"not before it is kept", "nothing can be read back before a commit or Keep", notBeforeItIsKept},
		{"a batch ends once", "after Stage or Close a batch takes nothing more, and Close after Stage does nothing", aBatchEndsOnce},
		{"an empty batch", "a batch without objects stages nothing", anEmptyBatch},
		{"staged is data", "what is staged can be stored and committed later", stagedIsData},
		{"a small batch is inline", "what is small stays in Objects, at most 1 MiB; bulk goes elsewhere", aSmallBatchIsInline},
		{"twice is once", "an object put again is stored once", twiceIsOnce},
		{"many writers of one batch", "a batch's methods may be called at once", manyWritersOfOneBatch},
		{"two batches with one object", "batches of two writers may bring the same object", twoBatchesWithOneObject},
	}
}

func otherObjects() []clause {
	return []clause{{"another process commits", "what one process staged another can commit", anotherProcessCommits}}
}

func object(writer, i int) string {
	return fmt.Sprintf("object %d of writer %d", i, writer) + noise(i*50)
}

// holds wants the store to have objects.
func (f *fixture) holds(data ...string) {
	f.Helper()
	for _, d := range data {
		if !f.has(d) {
			f.Fatalf("an object of %d bytes is missing", len(d))
		}
		got, err := f.store.Objects().Get(f.Context(), name(d))
		f.ok(err)
		if string(got) != d {
			f.Fatalf("an object of %d bytes came back different", len(d))
		}
	}
}

func roundTrip(f *fixture) {
	data := []string{"", "x", "\x00", strings.Repeat("a", 100_000), noise(100_000), noise(2 << 20), noise(10 << 20), strings.Repeat("tree\n", 1000)}
	for _, d := range data {
		if f.has(d) {
			f.Fatal("it is there before it was put")
		}
		_, err := f.store.Objects().Get(f.Context(), name(d))
		f.kind(err, segno.KindNotFound)
	}
	f.ok(f.store.Objects().Keep(f.Context(), f.stage(data...)))
	f.holds(data...)
}

func notBeforeItIsKept(f *fixture) {
	b := f.store.Objects().Batch()
	defer b.Close()
	h, err := b.Put(f.Context(), []byte("an object"))
	f.ok(err)
	f.same("its name", h, name("an object"))
	ok, err := b.Has(f.Context(), h)
	f.ok(err)
	f.same("in the batch", ok, true)
	f.same("in the store", f.has("an object"), false)
	staged, err := b.Stage(f.Context())
	f.ok(err)
	f.same("in the store once staged", f.has("an object"), false)
	f.ok(f.store.Objects().Keep(f.Context(), staged))
	f.holds("an object")
}

func aBatchEndsOnce(f *fixture) {
	for _, big := range []string{"small", noise(3 << 20)} {
		b := f.store.Objects().Batch()
		_, err := b.Put(f.Context(), []byte(big))
		f.ok(err)
		staged, err := b.Stage(f.Context())
		f.ok(err)
		_, err = b.Put(f.Context(), []byte("late"))
		f.kind(err, segno.KindInvalid)
		_, err = b.Stage(f.Context())
		f.kind(err, segno.KindInvalid)
		f.ok(b.Close())
		f.ok(f.store.Objects().Keep(f.Context(), staged))
		f.holds(big)
		dropped := f.store.Objects().Batch()
		_, err = dropped.Put(f.Context(), []byte("dropped"+big))
		f.ok(err)
		f.ok(dropped.Close())
		f.ok(dropped.Close())
		_, err = dropped.Put(f.Context(), []byte("late"))
		f.kind(err, segno.KindInvalid)
		f.same("a dropped object", f.has("dropped"+big), false)
	}
}

func anEmptyBatch(f *fixture) {
	f.same("is zero", f.stage().IsZero(), true)
	f.ok(f.store.Objects().Keep(f.Context(), segno.Staged{}))
}

func stagedIsData(f *fixture) {
	head := f.thread()
	c := f.next(head)
	c.Staged = f.stage("", "small", noise(3<<20))
	data, err := json.Marshal(c)
	f.ok(err)
	var later segno.Commit
	f.ok(json.Unmarshal(data, &later))
	first := f.commit(later)
	f.holds("", "small", noise(3<<20))
	f.same("the same commit, not spooled", f.commit(c), first)
}

func aSmallBatchIsInline(f *fixture) {
	for _, data := range [][]string{{"a", "b"}, {noise(900_000)}, {noise(5 << 20), "c"}} {
		staged := f.stage(data...)
		var sum int
		for _, o := range staged.Objects {
			sum += len(o.Data)
		}
		if len(staged.Packs) > 0 && sum > 1<<20 {
			f.Fatalf("%d bytes are inline beside %d packs", sum, len(staged.Packs))
		}
	}
}

func twiceIsOnce(f *fixture) {
	f.ok(f.store.Objects().Keep(f.Context(), f.stage("a", "a", "b")))
	staged := f.stage("a", "b", "c")
	var brought []segno.Hash
	for _, o := range staged.Objects {
		if len(o.Data) > 0 {
			brought = append(brought, o.Name)
		}
	}
	f.same("what is brought", brought, []segno.Hash{name("c")})
	f.ok(f.store.Objects().Keep(f.Context(), staged))
	f.ok(f.store.Objects().Keep(f.Context(), staged))
	f.holds("a", "b", "c")
}

func manyWritersOfOneBatch(f *fixture) {
	b := f.store.Objects().Batch()
	defer b.Close()
	const writers, each = 8, 200
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				if _, err := b.Put(f.Context(), []byte(object(w%2, i))); err != nil {
					f.Errorf("put: %v", err)
				}
			}
		})
	}
	group.Wait()
	staged, err := b.Stage(f.Context())
	f.ok(err)
	f.ok(f.store.Objects().Keep(f.Context(), staged))
	for w := range 2 {
		for i := range each {
			f.holds(object(w, i))
		}
	}
}

func twoBatchesWithOneObject(f *fixture) {
	one, two := f.stage("same", noise(2<<20), "one"), f.stage("same", noise(2<<20), "two")
	f.ok(f.store.Objects().Keep(f.Context(), one))
	f.ok(f.store.Objects().Keep(f.Context(), two))
	f.holds("same", noise(2<<20), "one", "two")
}

func anotherProcessCommits(f *fixture) {
	other := f.o.Another(f.T, f.store)
	defer other.Close()
	f.ok(other.Objects().Keep(f.Context(), f.stage("small", noise(3<<20))))
	f.holds("small", noise(3<<20))
}
