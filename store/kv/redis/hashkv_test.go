package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/kv/redis"
	goredis "github.com/redis/go-redis/v9"
)

func TestKV(t *testing.T) {
	c := client(t)
	prefix := map[kv.KV]string{}
	open := func(t *testing.T, p string) kv.KV {
		r, err := redis.NewKV(c, p)
		if err != nil {
			t.Fatal(err)
		}
		prefix[r] = p
		return r
	}
	kvtest.Test(t, func(t *testing.T) kv.KV { return open(t, newPrefix()+"[*]:") }, kvtest.Options{
		Another: func(t *testing.T, of kv.KV) kv.KV { return open(t, prefix[of]) },
		Pass:    func(t *testing.T, of kv.KV, d time.Duration) { pass(t, c, prefix[of], d) },
	})
}

// pass reduces the remaining life of a prefix's keys by d.
func pass(t *testing.T, c *goredis.Client, prefix string, d time.Duration) {
	t.Helper()
	for _, key := range c.Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		switch left := c.PTTL(t.Context(), key).Val(); {
		case left < 0:
		case left <= d:
			c.Del(t.Context(), key)
		default:
			c.PExpire(t.Context(), key, left-d)
		}
	}
}
