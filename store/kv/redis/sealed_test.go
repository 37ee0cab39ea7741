package redis_test

import (
	"bytes"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/storetest"
)

// TestSealed runs the tests about sealing on a store with a key.
func TestSealed(t *testing.T) {
	c := client(t)
	storetest.TestSealed(t, func(t *testing.T) storetest.Place {
		prefix := newPrefix()
		return storetest.Place{
			Open: func(t *testing.T, key []byte) (segno.Store, error) {
				s, err := redis.Open(t.Context(), server.URL, redis.Options{Prefix: prefix, Key: key})
				if err != nil {
					return nil, err
				}
				return s, nil
			},
			Dump: func(t *testing.T) []byte {
				var all bytes.Buffer
				keys, err := c.Keys(t.Context(), prefix+"*").Result()
				if err != nil {
					t.Fatal(err)
				}
				for _, key := range keys {
					fields, err := c.HGetAll(t.Context(), key).Result()
					if err != nil {
						t.Fatal(err)
					}
					for field, val := range fields {
						all.WriteString(key + field + "\n" + val + "\n")
					}
				}
				return all.Bytes()
			},
		}
	})
}

// TestASealedStoreBesideOthers makes a store whose prefix is the beginning of another store's
// prefix, and of a key of another program.
func TestASealedStoreBesideOthers(t *testing.T) {
	p := newPrefix()
	tenant := open(t, redis.Options{Prefix: p + "tenant:"})
	if _, err := tenant.Commit(t.Context(), segno.Commit{ID: "c", Thread: "t", Create: &segno.Thread{ID: "t"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}}); err != nil {
		t.Fatal(err)
	}
	if err := client(t).Set(t.Context(), p+"lock", "somebody", 0).Err(); err != nil {
		t.Fatal(err)
	}
	open(t, redis.Options{Prefix: p, Key: storetest.SealedKey()})
}
