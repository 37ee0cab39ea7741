package kv_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
)

var errFault = errors.New("the network went away")

// faulty fails one call of a KV, before or after the call takes effect. The caller cannot
// distinguish the two.
type faulty struct {
	kv     kv.KV
	at     int
	behind bool

	n   int
	hit string // the key of the call that failed
}

func (f *faulty) call(key string, do func() error) error {
	f.n++
	fails := f.n == f.at
	if fails {
		f.hit = key
	}
	if fails && !f.behind {
		return errFault
	}
	err := do()
	if fails {
		return errFault
	}
	return err
}

func (f *faulty) Get(ctx context.Context, key string) (val []byte, rev kv.Rev, err error) {
	err = f.call(key, func() (err error) { val, rev, err = f.kv.Get(ctx, key); return err })
	return val, rev, err
}

func (f *faulty) Put(ctx context.Context, key string, val []byte, ifRev kv.Rev) (rev kv.Rev, err error) {
	err = f.call(key, func() (err error) { rev, err = f.kv.Put(ctx, key, val, ifRev); return err })
	return rev, err
}

func (f *faulty) Delete(ctx context.Context, key string, ifRev kv.Rev) error {
	return f.call(key, func() error { return f.kv.Delete(ctx, key, ifRev) })
}

func (f *faulty) List(ctx context.Context, prefix, after string, limit int) iter.Seq2[kv.Item, error] {
	return func(yield func(kv.Item, error) bool) {
		if err := f.call(prefix, func() error { return nil }); err != nil {
			yield(kv.Item{}, err)
			return
		}
		f.kv.List(ctx, prefix, after, limit)(yield)
	}
}

// ableFaulty is a faulty KV with the optional methods of a Map.
type ableFaulty struct{ *faulty }

func (a ableFaulty) GetAll(ctx context.Context, keys []string) (vals [][]byte, err error) {
	err = a.call("many", func() (err error) { vals, err = a.kv.(*kvtest.Map).GetAll(ctx, keys); return err })
	return vals, err
}

func (a ableFaulty) Batch(ctx context.Context, ops []kv.Op) (revs []kv.Rev, err error) {
	err = a.call("batch", func() (err error) { revs, err = a.kv.(*kvtest.Map).Batch(ctx, ops); return err })
	return revs, err
}

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func noon() time.Time { return day }

func mustOpen(t testing.TB, in kv.KV, o kv.Options) *kv.Store {
	t.Helper()
	if o.Clock == nil {
		o.Clock = noon
	}
	s, err := kv.Open(t.Context(), in, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func turn(head segno.Head, id string) segno.Commit {
	body, err := json.Marshal("what was said in " + id)
	if err != nil {
		panic(err)
	}
	return segno.Commit{ID: segno.CommitID(id), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
		Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: head.Turn + 1, Time: day, Name: "user", Body: body}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, Time: day, Prompt: id}}
}

func create(thread segno.ThreadID, parent segno.CommitID) segno.Commit {
	return segno.Commit{ID: "base of " + segno.CommitID(thread), Thread: thread, Parent: parent,
		Create: &segno.Thread{ID: thread, Created: day, Parent: parent}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: day}}
}

// stage stages one object.
func stage(ctx context.Context, s *kv.Store, data string) (segno.Staged, error) {
	b := s.Objects().Batch()
	defer b.Close()
	if _, err := b.Put(ctx, []byte(data)); err != nil {
		return segno.Staged{}, err
	}
	return b.Stage(ctx)
}

// steps returns the calls of a program. Each step can be repeated after a fault.
func steps() []func(ctx context.Context, s *kv.Store) error {
	commit := func(make func(ctx context.Context, s *kv.Store) (segno.Commit, error)) func(context.Context, *kv.Store) error {
		return func(ctx context.Context, s *kv.Store) error {
			c, err := make(ctx, s)
			if err == nil {
				_, err = s.Commit(ctx, c)
			}
			return err
		}
	}
	// on sets the head of a commit: the thread's head before this commit, which the steps know in
	// advance
	on := func(thread segno.ThreadID, head, id string, n int, change func(c *segno.Commit)) func(context.Context, *kv.Store) error {
		return commit(func(ctx context.Context, s *kv.Store) (segno.Commit, error) {
			c := turn(segno.Head{Thread: thread, Head: segno.CommitID(head), Turn: n}, id)
			c.Epoch = 9
			if change != nil {
				change(&c)
			}
			return c, nil
		})
	}
	return []func(context.Context, *kv.Store) error{
		commit(func(context.Context, *kv.Store) (segno.Commit, error) { return create("T", ""), nil }),
		on("T", "base of T", "one", 0, nil),
		commit(func(ctx context.Context, s *kv.Store) (segno.Commit, error) {
			c := turn(segno.Head{Thread: "T", Head: "one", Turn: 1}, "two")
			var err error
			c.Staged, err = stage(ctx, s, "an object")
			c.Needs = []segno.Hash{segno.HashOf([]byte("an object"))}
			c.Link = &segno.Link{Agent: "a", Session: "s", Start: day}
			return c, err
		}),
		func(ctx context.Context, s *kv.Store) error {
			_, err := s.Acquire(ctx, segno.Lease{Thread: "T", Owner: "me", Expires: day.Add(time.Hour)})
			return err
		},
		on("T", "two", "long", 2, func(c *segno.Commit) {
			c.Entries[0].Body = []byte(`"` + incompressible(150_000) + `"`)
		}),
		commit(func(context.Context, *kv.Store) (segno.Commit, error) {
			return segno.Commit{ID: "undo", Thread: "T", Expect: "long", Epoch: 9, Move: &segno.Move{Head: "one", Tip: "long"},
				Pin: &segno.Pin{Checkpoint: "two", Name: "good"}}, nil
		}),
		on("T", "one", "again", 3, nil),
		commit(func(context.Context, *kv.Store) (segno.Commit, error) { return create("F", "two"), nil }),
		on("F", "base of F", "in the fork", 2, nil),
		commit(func(context.Context, *kv.Store) (segno.Commit, error) { return create("D", "again"), nil }),
		func(ctx context.Context, s *kv.Store) error {
			err := s.Delete(ctx, "D")
			if segno.KindOf(err) == segno.KindNotFound { // Delete succeeded before the repetition
				err = nil
			}
			return err
		},
	}
}

func incompressible(n int) string {
	var b strings.Builder
	for h := segno.HashOf(nil); b.Len() < n; h = segno.HashOf(h[:]) {
		b.WriteString(h.String())
	}
	return b.String()[:n]
}

// contentsOf returns everything that a store returns about the threads of steps, as JSON.
func contentsOf(t *testing.T, s *kv.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(what string, x any) {
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		all[what] = string(text)
	}
	for _, thread := range []segno.ThreadID{"T", "F", "D"} {
		head, err := s.Head(t.Context(), thread)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		add("head of "+string(thread), head)
		for _, at := range []segno.CommitID{head.Head, head.Tip} {
			line, err := s.Load(t.Context(), at, segno.Window{Entries: true})
			if err != nil {
				t.Fatal(err)
			}
			add("line of "+string(at), line)
		}
		var links []segno.Link
		for l, err := range s.Chain(t.Context(), thread) {
			if err != nil {
				t.Fatal(err)
			}
			links = append(links, l)
		}
		add("chain of "+string(thread), links)
	}
	for name, q := range map[string]segno.CheckpointQuery{"checkpoints": {}, "pinned": {Pinned: true}} {
		var found []segno.Checkpoint
		for c, err := range s.Checkpoints(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, c)
		}
		add(name, found)
	}
	for name, q := range map[string]segno.ThreadQuery{"threads": {}, "threads of s": {Session: "s"}} {
		var found []segno.Thread
		for x, err := range s.Threads(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, x)
		}
		add(name, found)
	}
	return all
}

// TestFaults fails each call of the steps in turn, before or after the call takes effect. After
// each fault another Store must return the contents from before or after the step, and the step
// must succeed when it is repeated.
func TestFaults(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	kinds := map[string]func(f *faulty) kv.KV{
		"plain": func(f *faulty) kv.KV { return f },
		"batch": func(f *faulty) kv.KV { return ableFaulty{f} },
	}
	for name, wrap := range kinds {
		for _, ttl := range []time.Duration{0, time.Hour} {
			if name == "plain" && ttl > 0 {
				continue
			}
			for _, behind := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, ttl %v, behind %v", name, ttl, behind), func(t *testing.T) {
					want := []map[string]string{}
					clock := storetest.NewClock()
					o := kv.Options{TTL: ttl, Clock: clock.Now}
					clean := kvtest.NewMap(clock.Now)
					s := mustOpen(t, wrap(&faulty{kv: clean}), o)
					want = append(want, contentsOf(t, s))
					for _, step := range steps() {
						if err := step(t.Context(), s); err != nil {
							t.Fatal(err)
						}
						want = append(want, contentsOf(t, mustOpen(t, wrap(&faulty{kv: clean}), o)))
						clock.Advance(ttl / 5)
					}
					n, distance := places(t)
					for n++; faultAt(t, wrap, ttl, n, behind, want); n += distance {
					}
					if n < len(want)*2 {
						t.Fatalf("only %d calls", n)
					}
				})
			}
		}
	}
}

// places returns the number of the first of the calls and keys that a test of failures and damage tries, from 0, and the distance
// between them: a third of them, another one at each run.
func places(t *testing.T) (first, distance int) {
	t.Helper()
	distance = soak.OneOf(t, 3, 3)
	return int(soak.Seed(t) % uint64(distance)), distance
}

// faultAt runs the steps with one fault and reports whether the fault happened.
func faultAt(t *testing.T, wrap func(*faulty) kv.KV, ttl time.Duration, n int, behind bool, want []map[string]string) bool {
	t.Helper()
	clock := storetest.NewClock()
	o := kv.Options{TTL: ttl, Clock: clock.Now}
	under := kvtest.NewMap(clock.Now)
	f := &faulty{kv: under}
	s := mustOpen(t, wrap(f), o)
	f.n, f.at, f.behind = 0, n, behind
	reported := false
	for i, step := range steps() {
		err := step(t.Context(), s)
		if err != nil {
			reported = true
			if !errors.Is(err, errFault) || segno.KindOf(err) != segno.KindIO {
				t.Fatalf("call %d (%s), step %d: %v", n, f.hit, i, err)
			}
			seen := contentsOf(t, mustOpen(t, wrap(&faulty{kv: under}), o))
			if !maps.Equal(seen, want[i]) && !maps.Equal(seen, want[i+1]) {
				t.Fatalf("call %d (%s), step %d: neither the old nor the new:\n%s", n, f.hit, i, cmp.Diff(want[i+1], seen))
			}
			if err := step(t.Context(), s); err != nil {
				t.Fatalf("call %d (%s), step %d, once more: %v", n, f.hit, i, err)
			}
		}
		seen := contentsOf(t, mustOpen(t, wrap(&faulty{kv: under}), o))
		if !maps.Equal(want[i+1], seen) {
			t.Fatalf("call %d (%s), after step %d (-want +got):\n%s", n, f.hit, i, cmp.Diff(want[i+1], seen))
		}
		clock.Advance(ttl / 5)
	}
	// A head key is a hint. If the key of an open thread cannot be removed, a later list needs one
	// more read, and if a commit cannot write such a key, the commit fails.
	if f.hit != "" && !reported && !strings.HasSuffix(f.hit, "}head") && !strings.HasPrefix(f.hit, "open{}") && !strings.HasPrefix(f.hit, "using{}") {
		t.Fatalf("call %d (%s) failed and no step returned an error", n, f.hit)
	}
	return f.hit != ""
}

// twice sends each change again, as a client does if its connection breaks after the effect.
type twice struct{ *kvtest.Map }

func (x twice) Put(ctx context.Context, key string, val []byte, ifRev kv.Rev) (kv.Rev, error) {
	_, _ = x.Map.Put(ctx, key, val, ifRev)
	return x.Map.Put(ctx, key, val, ifRev)
}

func (x twice) Batch(ctx context.Context, ops []kv.Op) ([]kv.Rev, error) {
	_, _ = x.Map.Batch(ctx, ops)
	return x.Map.Batch(ctx, ops)
}

// TestSentTwice runs the steps on a KV that makes each change and then answers with a conflict.
func TestSentTwice(t *testing.T) {
	for name, in := range map[string]func(m *kvtest.Map) kv.KV{"plain": func(m *kvtest.Map) kv.KV { return withoutAbilities{twice{m}} }, "batch": func(m *kvtest.Map) kv.KV { return twice{m} }} {
		t.Run(name, func(t *testing.T) {
			clean, m := mustOpen(t, kvtest.NewMap(noon), kv.Options{}), kvtest.NewMap(noon)
			s := mustOpen(t, in(m), kv.Options{})
			for i, step := range steps() {
				for _, s := range []*kv.Store{clean, s} {
					if err := step(t.Context(), s); err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
				}
			}
			if want, got := contentsOf(t, clean), contentsOf(t, s); !maps.Equal(want, got) {
				t.Fatalf("(-want +got):\n%s", cmp.Diff(want, got))
			}
			l, err := s.LeaseOf(t.Context(), "T")
			if err != nil || l.Owner != "me" || l.Epoch != 1 {
				t.Fatalf("the lease is %+v, %v", l, err)
			}
			if err := s.Release(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			if l, err := s.LeaseOf(t.Context(), "T"); err != nil || l.Owner != "" {
				t.Fatalf("the lease is still %+v, %v", l, err)
			}
		})
	}
}
