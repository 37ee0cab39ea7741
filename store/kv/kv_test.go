package kv_test

import (
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bare hides a KV's abilities.
type bare struct{ kv.KV }

// reader is a KV with one ability of two.
type reader struct {
	kv.KV
	kv.Getter
}

func plain(m *kv.Map) kv.KV { return bare{m} }
func able(m *kv.Map) kv.KV  { return m }

func TestStore(t *testing.T) {
	for name, x := range map[string]struct {
		able func(*kv.Map) kv.KV
		ttl  time.Duration
	}{
		"plain":  {able: plain},
		"reader": {able: func(m *kv.Map) kv.KV { return reader{m, m} }},
		"batch":  {able: able},
		"ttl":    {able: able, ttl: 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			under := map[segno.Store]kv.KV{}
			open := func(t *testing.T, in kv.KV) segno.Store {
				s, err := kv.Open(in, kv.Options{Clock: clock.Now, TTL: x.ttl})
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
				o.Size = nil // a fork is a copy there
			}
			storetest.Test(t, func(t *testing.T) segno.Store { return open(t, x.able(kv.NewMap(clock.Now))) }, o)
		})
	}
}

// raw is all that a KV holds.
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

// size is how many bytes a KV's keys and values are.
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
