package kv_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withoutAbilities hides that a KV is a Batcher.
type withoutAbilities struct{ kv.KV }

func plain(m *kvtest.Map) kv.KV { return withoutAbilities{m} }
func able(m *kvtest.Map) kv.KV  { return m }

// TestStore runs the conformance tests on three kinds of KVs, of which a run tries two.
func TestStore(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	type variant struct {
		name string
		able func(*kvtest.Map) kv.KV
		ttl  time.Duration
	}
	for _, x := range soak.Some(t, 2, variant{"plain", plain, 0}, variant{"batch", able, 0}, variant{"ttl", able, 1000 * time.Hour}) {
		t.Run(x.name, func(t *testing.T) {
			clock := storetest.NewClock()
			under := map[segno.Store]kv.KV{}
			open := func(t *testing.T, in kv.KV) segno.Store {
				s, err := kv.Open(t.Context(), in, kv.Options{Clock: clock.Now, TTL: x.ttl})
				if err != nil {
					t.Fatal(err)
				}
				under[s] = in
				return s
			}
			o := storetest.Options{
				Clock: clock,
				Reopen: func(t *testing.T, s segno.Store) segno.Store {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return open(t, under[s])
				},
				Another: func(t *testing.T, s segno.Store) segno.Store { return open(t, under[s]) },
				Raw:     func(t *testing.T, s segno.Store) []byte { return raw(t, under[s]) },
				Size:    func(t *testing.T, s segno.Store) int64 { return size(t, under[s]) },
			}
			if x.ttl > 0 {
				o.Size = nil // a fork copies its line there
			}
			storetest.Test(t, func(t *testing.T) segno.Store { return open(t, x.able(kvtest.NewMap(clock.Now))) }, o)
		})
	}
}

// raw returns all keys and values of a KV.
func raw(t *testing.T, in kv.KV) (all []byte) {
	t.Helper()
	for item, err := range in.List(t.Context(), "", "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, item.Key...), item.Val...)
	}
	return all
}

// size returns the size of a KV's keys and values in bytes.
func size(t *testing.T, in kv.KV) (n int64) {
	t.Helper()
	for item, err := range in.List(t.Context(), "", "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n += int64(len(item.Key) + len(item.Val))
	}
	return n
}

// failingDelete is a KV that cannot delete the keys of one group.
type failingDelete struct {
	kv.KV
	group string
}

func (u failingDelete) Delete(ctx context.Context, key string, ifRev kv.Rev) error {
	if strings.HasPrefix(key, u.group) {
		return io.ErrUnexpectedEOF
	}
	return u.KV.Delete(ctx, key, ifRev)
}

// TestEraseBesideADeadWriter leaves the key of a writer that died during a commit, which makes
// erasures wait for some minutes, and the key of an erasure that died, which makes writers wait in
// the same way.
func TestEraseBesideADeadWriter(t *testing.T) {
	clock := storetest.NewClock()
	under := withoutAbilities{kvtest.NewMap(clock.Now)}
	open := func(in kv.KV) *kv.Store { return mustOpen(t, in, kv.Options{Clock: clock.Now}) }
	s := open(under)
	commit := func(s *kv.Store, c segno.Commit) {
		t.Helper()
		if _, err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"deleted", "live"} {
		commit(s, segno.Commit{ID: segno.CommitID(id), Thread: segno.ThreadID(id), Create: &segno.Thread{ID: segno.ThreadID(id)}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	}
	pin := func(id, name string) segno.Commit {
		return segno.Commit{ID: segno.CommitID(id), Thread: "live", Expect: "live", Pin: &segno.Pin{Checkpoint: "live", Name: name}}
	}
	commit(open(failingDelete{under, "using{}"}), pin("pin", "a pin"))
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Erase(t.Context(), segno.CollectPolicy{}); segno.KindOf(err) != segno.KindBusy {
		t.Errorf("erase beside a commit: %v; want %s", err, segno.KindBusy)
	}
	clock.Advance(time.Hour)
	done, err := open(failingDelete{under, "erasing{}"}).Erase(t.Context(), segno.CollectPolicy{})
	if err != nil || done.Checkpoints != 1 {
		t.Errorf("erase an hour later: %+v, %v; want one checkpoint", done, err)
	}
	clock.Advance(time.Hour)
	commit(s, pin("another pin", "another"))
	if _, err := s.Erase(t.Context(), segno.CollectPolicy{}); err != nil {
		t.Error(err)
	}
}
