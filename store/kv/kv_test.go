package kv_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bare hides a KV's abilities.
type bare struct{ kv.KV }

func TestStore(t *testing.T) {
	for name, able := range map[string]func(*kv.Map) kv.KV{
		"plain": func(m *kv.Map) kv.KV { return bare{m} },
		"batch": func(m *kv.Map) kv.KV { return m },
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			under := map[segno.Store]kv.KV{}
			open := func(t *testing.T, in kv.KV) segno.Store {
				s, err := kv.Open(in, kv.Options{Clock: clock.Now})
				if err != nil {
					t.Fatal(err)
				}
				under[s] = in
				return s
			}
			storetest.Test(t, func(t *testing.T) segno.Store { return open(t, able(kv.NewMap(clock.Now))) }, storetest.Options{
				Clock: clock,
				Reopen: func(t *testing.T, s segno.Store) segno.Store {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return open(t, under[s])
				},
				Another: func(t *testing.T, s segno.Store) segno.Store { return open(t, under[s]) },
				Size: func(t *testing.T, s segno.Store) (n int64) {
					for item, err := range under[s].List(t.Context(), "", "", 0) {
						if err != nil {
							t.Fatal(err)
						}
						n += int64(len(item.Key) + len(item.Val))
					}
					return n
				},
			})
		})
	}
}
