package kv_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

// readEach reads the lines, threads and objects of a store. It returns their contents, and the errors for
// those that it cannot read.
func readEach(t *testing.T, s *kv.Store, objects ...segno.Hash) (contents map[string]string, errs []error) {
	t.Helper()
	contents = map[string]string{}
	add := func(what string, x any, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			return
		}
		contents[what] = fmt.Sprintf("%+v", x)
	}
	ctx := t.Context()
	for _, id := range []segno.CommitID{"base of T", "one", "two", "long", "again", "base of F", "in the fork"} {
		line, err := s.Load(ctx, id, segno.Window{Entries: true})
		n := 0
		if err == nil {
			for _, c := range line.Commits {
				n += len(c.Entries)
			}
		}
		add("line of "+string(id), n, err)
	}
	for _, thread := range []segno.ThreadID{"T", "F"} {
		head, err := s.Head(ctx, thread)
		add("head of "+string(thread), head, err)
		l, err := s.LeaseOf(ctx, thread)
		add("lease of "+string(thread), l, err)
		for l, err := range s.Chain(ctx, thread) {
			add("link", l, err)
		}
	}
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{}) {
		add("checkpoint "+string(c.ID), c.Seq, err)
	}
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		add("pinned "+string(c.ID), c.Seq, err)
	}
	for x, err := range s.Threads(ctx, segno.ThreadQuery{Session: "s"}) {
		add("thread of s "+string(x.ID), x, err)
	}
	for p := segno.PhaseDone; p <= segno.PhaseWaiting; p++ {
		for x, err := range s.Threads(ctx, segno.ThreadQuery{Phase: p}) {
			add("thread in a phase "+string(x.ID), p, err)
		}
	}
	for i, name := range objects {
		got, err := s.Objects().Get(ctx, name)
		add(fmt.Sprint("object ", i), len(got), err)
	}
	return contents, errs
}

// TestDamage damages each value in several ways. A read that needs the value must return an error that
// names its key. Other reads must return the same as before.
func TestDamage(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, x := range map[string]struct {
		able func(*kvtest.Map) kv.KV
		key  []byte
	}{"plain": {able: plain}, "batch": {able: able}, "sealed": {able, storetest.SealedKey()}} {
		t.Run(name, func(t *testing.T) {
			able, o := x.able, kv.Options{Key: x.key, Clock: noon}
			m := kvtest.NewMap(noon)
			s := mustOpen(t, able(m), o)
			for _, step := range steps() {
				if err := step(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			long := incompressible(2 << 20)
			names := []segno.Hash{segno.HashOf([]byte("an object")), segno.HashOf([]byte(long))}
			bulk, err := stage(t.Context(), s, long)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Objects().Keep(t.Context(), bulk); err != nil {
				t.Fatal(err)
			}
			whole, errs := readEach(t, mustOpen(t, able(m), o), names...)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			var items []kv.Item
			for item, err := range m.List(t.Context(), "", "", 0) {
				if err != nil {
					t.Fatal(err)
				}
				items = append(items, item)
			}
			for i, distance := places(t); i < len(items); i += distance {
				x := items[i]
				other := items[(i+1)%len(items)].Val
				for how, val := range map[string][]byte{"a bit": flip(x.Val, len(x.Val)/2), "the first bit": flip(x.Val, 0), "the last bit": flip(x.Val, len(x.Val)-1),
					"cut": x.Val[:len(x.Val)/2], "empty": {}, "zeros": make([]byte, len(x.Val)), "another's": other, "lost": nil} {
					if val == nil && !strings.Contains(x.Key, "}log/") {
						continue // without another key, its record is not found that way
					}
					if slices.Equal(val, x.Val) {
						continue
					}
					if val == nil {
						if err := m.Delete(t.Context(), x.Key, kv.RevAny); err != nil {
							t.Fatal(err)
						}
					} else {
						set(t, m, x.Key, val)
					}
					var contents map[string]string
					s, err := kv.Open(t.Context(), able(m), o)
					errs := []error{err}
					if err == nil {
						contents, errs = readEach(t, s, names...)
					}
					checkErrorsName(t, x.Key+", "+how, x.Key, errs)
					for what, now := range contents {
						if now != whole[what] {
							t.Errorf("%s, %s: %s is %s instead of %s", x.Key, how, what, now, whole[what])
						}
					}
					if len(errs) == 0 && !isUnused(x.Key) {
						t.Errorf("%s, %s: no read returned an error", x.Key, how)
					}
				}
				set(t, m, x.Key, x.Val)
			}
		})
	}
}

// isUnused reports whether readEach needs no value of a key, because it belongs to a deleted thread or to an
// unfinished commit.
func isUnused(key string) bool {
	for _, x := range []string{"t{D}log", "c{base%20of%20D}", "c{undo}"} {
		if strings.HasPrefix(key, x) {
			return true
		}
	}
	return false
}

// checkErrorsName fails the test unless each error reports damage and names the key.
func checkErrorsName(t *testing.T, what, key string, errs []error) {
	t.Helper()
	for _, err := range errs {
		var at *segno.Error
		if segno.KindOf(err) != segno.KindCorrupt || !errors.As(err, &at) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v (kind %q)", what, err, segno.KindOf(err))
		}
	}
}

func flip(val []byte, at int) []byte {
	out := slices.Clone(val)
	out[at] ^= 1
	return out
}

func set(t *testing.T, m *kvtest.Map, key string, val []byte) {
	t.Helper()
	if _, err := m.Put(t.Context(), key, val, kv.RevAny); err != nil {
		t.Fatal(err)
	}
}

// TestTheHeadIsAHint removes the head keys. The store must restore them from the log.
func TestTheHeadIsAHint(t *testing.T) {
	for name, able := range map[string]func(*kvtest.Map) kv.KV{"plain": plain, "batch": able} {
		t.Run(name, func(t *testing.T) {
			m := kvtest.NewMap(noon)
			s := mustOpen(t, able(m), kv.Options{})
			for _, step := range steps() {
				if err := step(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			whole := contentsOf(t, s)
			for _, thread := range []string{"T", "F", "D"} {
				if err := m.Delete(t.Context(), "t{"+thread+"}head", kv.RevSome); err != nil {
					t.Fatal(err)
				}
			}
			s = mustOpen(t, able(m), kv.Options{})
			if now := contentsOf(t, s); !maps.Equal(now, whole) {
				t.Fatalf("(-want +got):\n%s", cmp.Diff(whole, now))
			}
			head, err := s.Head(t.Context(), "T")
			if err != nil {
				t.Fatal(err)
			}
			if head, err = s.Commit(t.Context(), turn(head, "after")); err != nil || head.Seq != 7 {
				t.Fatalf("the next commit: %+v, %v", head, err)
			}
		})
	}
}

// TestAMissingRecord removes a record from the middle of a log.
func TestAMissingRecord(t *testing.T) {
	m := kvtest.NewMap(noon)
	s := mustOpen(t, m, kv.Options{})
	head, err := s.Commit(t.Context(), create("T", ""))
	for i := 0; i < 4 && err == nil; i++ {
		head, err = s.Commit(t.Context(), turn(head, fmt.Sprint(i)))
	}
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("t{T}log/%020d", 3)
	if err := m.Delete(t.Context(), key, kv.RevSome); err != nil {
		t.Fatal(err)
	}
	for _, able := range []kv.KV{m, withoutAbilities{m}} {
		s := mustOpen(t, able, kv.Options{})
		_, err = s.Load(t.Context(), head.Head, segno.Window{})
		checkErrorsName(t, "a load", key, []error{err})
		_, err = s.Commit(t.Context(), turn(segno.Head{Thread: "T"}, "1"))
		checkErrorsName(t, "a commit of the id that was there", key, []error{err})
		if _, err = s.Load(t.Context(), head.Head, segno.Window{Last: 2}); err != nil {
			t.Fatalf("what lies behind it: %v", err)
		}
	}
}
