package redis_test

import (
	"bytes"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/storetest"
)

// TestSealed holds a store with a key to the clauses about sealing.
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
