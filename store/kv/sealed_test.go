package kv_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
)

// TestSealed runs the tests about sealing on a store with a key, with a KV that is a Batcher
// and with one that is not.
func TestSealed(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, able := range map[string]func(*kvtest.Map) kv.KV{"plain": plain, "batch": able} {
		t.Run(name, func(t *testing.T) {
			storetest.TestSealed(t, func(t *testing.T) storetest.Place {
				m := kvtest.NewMap(nil)
				return storetest.Place{
					Open: func(t *testing.T, key []byte) (segno.Store, error) {
						s, err := kv.Open(t.Context(), able(m), kv.Options{Key: key})
						if err != nil {
							return nil, err
						}
						return s, nil
					},
					Dump: func(t *testing.T) []byte { return []byte(strings.Join(dump(t, m), "\n")) },
				}
			})
		})
	}
}

// dump returns all keys and values.
func dump(t *testing.T, m *kvtest.Map) (all []string) {
	t.Helper()
	for item, err := range m.List(t.Context(), "", "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, item.Key, string(item.Val))
	}
	return all
}

// TestSealedStore runs the tests for all stores on a store with a key.
func TestSealedStore(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, ttl := range map[string]time.Duration{"for ever": 0, "ttl": 1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			under := map[segno.Store]*kvtest.Map{}
			at := func(t *testing.T, m *kvtest.Map) segno.Store {
				s := mustOpen(t, m, kv.Options{Clock: clock.Now, TTL: ttl, Key: storetest.SealedKey()})
				under[s] = m
				return s
			}
			storetest.TestSome(t, 4, func(t *testing.T) segno.Store { return at(t, kvtest.NewMap(clock.Now)) }, storetest.Options{
				Clock: clock,
				Reopen: func(t *testing.T, s segno.Store) segno.Store {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return at(t, under[s])
				},
				Another: func(t *testing.T, s segno.Store) segno.Store { return at(t, under[s]) },
			})
		})
	}
}

// TestPlainValues copies each value of a store without a key into the same store with a key. A
// read that needs the value must return an error, and other reads must return the same as
// before.
func TestPlainValues(t *testing.T) {
	sealed, unsealed := kvtest.NewMap(noon), kvtest.NewMap(noon)
	o := kv.Options{Key: storetest.SealedKey()}
	for m, o := range map[*kvtest.Map]kv.Options{sealed: o, unsealed: {}} {
		s := mustOpen(t, m, o)
		for _, step := range steps() {
			if err := step(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole, errs := readEach(t, mustOpen(t, sealed, o))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n := 0
	for item, err := range unsealed.List(t.Context(), "", "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		was, _, err := sealed.Get(t.Context(), item.Key)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			continue // sessions and objects have other names
		}
		n++
		set(t, sealed, item.Key, item.Val)
		contents, errs := readEach(t, mustOpen(t, sealed, o))
		checkErrorsName(t, item.Key, item.Key, errs)
		if len(errs) == 0 && !isUnused(item.Key) {
			t.Fatalf("%s is in plain and nobody was told", item.Key)
		}
		for what, now := range contents {
			if now != whole[what] {
				t.Fatalf("%s: %s is %s instead of %s", item.Key, what, now, whole[what])
			}
		}
		set(t, sealed, item.Key, was)
	}
	if n < 10 {
		t.Fatalf("only %d values were tried", n)
	}
}

// TestSwappedValues swaps the records of two commits, of one thread and of two threads, and the
// heads of two threads.
func TestSwappedValues(t *testing.T) {
	m := kvtest.NewMap(noon)
	o := kv.Options{Key: storetest.SealedKey()}
	s := mustOpen(t, m, o)
	for _, step := range steps() {
		if err := step(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	record := func(thread string, pos int) string { return fmt.Sprintf("t{%s}log/%020d", thread, pos) }
	whole, errs := readEach(t, mustOpen(t, m, o))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, x := range [][2]string{{record("T", 1), record("T", 2)}, {record("T", 1), record("F", 1)}, {"t{T}head", "t{F}head"}} {
		first, _, err := m.Get(t.Context(), x[0])
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := m.Get(t.Context(), x[1])
		if err != nil || bytes.Equal(first, second) {
			t.Fatal(err)
		}
		set(t, m, x[0], second)
		set(t, m, x[1], first)
		contents, errs := readEach(t, mustOpen(t, m, o))
		if len(errs) == 0 {
			t.Fatalf("%v changed places and nobody was told", x)
		}
		for _, err := range errs {
			if segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), x[0]) && !strings.Contains(err.Error(), x[1]) {
				t.Fatalf("%v: %v (kind %q)", x, err, segno.KindOf(err))
			}
		}
		for what, now := range contents {
			if now != whole[what] {
				t.Fatalf("%v: %s is %s instead of %s", x, what, now, whole[what])
			}
		}
		set(t, m, x[0], first)
		set(t, m, x[1], second)
	}
}

// TestFaultsWhileAStoreIsMade fails each call while a store gets its mark. The next call must
// repair that, and there must be one mark.
func TestFaultsWhileAStoreIsMade(t *testing.T) {
	o := kv.Options{Key: storetest.SealedKey()}
	for _, behind := range []bool{false, true} {
		for n := 1; ; n++ {
			m := kvtest.NewMap(noon)
			f := &faulty{kv: m, at: n, behind: behind}
			_, failed := kv.Open(t.Context(), f, o)
			if (f.hit != "") != (failed != nil) {
				t.Fatalf("call %d failed (%s), and Open returned %v", n, f.hit, failed)
			}
			head, err := mustOpen(t, m, o).Commit(t.Context(), create("T", ""))
			if err != nil {
				t.Fatalf("call %d: a later commit: %v", n, err)
			}
			if failed == nil {
				if n < 4 {
					t.Fatalf("it was made with %d calls", n)
				}
				break
			}
			if again, err := mustOpen(t, m, o).Head(t.Context(), "T"); err != nil || again.Head != head.Head {
				t.Fatalf("call %d: %+v, %v", n, again, err)
			}
		}
	}
}

// TestAStoreWithObjectsIsNotNew keeps an object before a thread exists. The object is not
// encrypted, so the store can no longer be sealed.
func TestAStoreWithObjectsIsNotNew(t *testing.T) {
	m := kvtest.NewMap(nil)
	objects := mustOpen(t, m, kv.Options{}).Objects()
	b := objects.Batch()
	if _, err := b.Put(t.Context(), []byte("an object")); err != nil {
		t.Fatal(err)
	}
	staged, err := b.Stage(t.Context())
	if err == nil {
		err = objects.Keep(t.Context(), staged)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(t.Context(), m, kv.Options{Key: storetest.SealedKey()}); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("%v", err)
	}
}

// late is a KV in which a change happens before the first list.
type late struct {
	kv.KV
	before func()
	once   sync.Once
}

func (l *late) List(ctx context.Context, prefix, after string, limit int) iter.Seq2[kv.Item, error] {
	l.once.Do(l.before)
	return l.KV.List(ctx, prefix, after, limit)
}

// TestTwoMakeOneSealedStore opens a new store while another caller with the same key also opens
// it, and already writes.
func TestTwoMakeOneSealedStore(t *testing.T) {
	m := kvtest.NewMap(nil)
	second, err := kv.Open(t.Context(), &late{KV: m, before: func() {
		first := mustOpen(t, m, kv.Options{Key: storetest.SealedKey()})
		if _, err := first.Commit(t.Context(), segno.Commit{ID: "c", Thread: "t", Create: &segno.Thread{ID: "t"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}); err != nil {
			t.Error(err)
		}
	}}, kv.Options{Key: storetest.SealedKey()})
	if err != nil {
		t.Fatal(err)
	}
	if head, err := second.Head(t.Context(), "t"); err != nil || head.Head != "c" {
		t.Errorf("%+v, %v", head, err)
	}
}
