package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/storetest"
	goredis "github.com/redis/go-redis/v9"
)

// cluster starts a cluster of one server. Like a cluster of many servers, it refuses commands
// that use two slots.
func cluster(t *testing.T) *goredis.ClusterClient {
	t.Helper()
	own, err := serverrig.Redis(t.Context(), "", "--cluster-enabled", "yes", "--appendfsync", "no")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	one := goredis.NewClient(&goredis.Options{Addr: own.Addr})
	defer one.Close()
	if err := one.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(one.ClusterInfo(t.Context()).Val(), "cluster_state:ok") {
		if t.Context().Err() != nil {
			t.Fatal("the cluster does not come up")
		}
	}
	c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{own.Addr}})
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCluster(t *testing.T) {
	c := cluster(t)
	t.Run("kv", func(t *testing.T) {
		kvtest.Test(t, func(t *testing.T) kv.KV {
			in, err := redis.NewKV(c, newPrefix())
			if err != nil {
				t.Fatal(err)
			}
			return in
		}, kvtest.Options{})
	})
	t.Run("store", func(t *testing.T) {
		clock := storetest.NewClock()
		prefix := map[segno.Store]string{}
		at := func(t *testing.T, p string) segno.Store {
			s, err := redis.OpenClient(t.Context(), c, redis.Options{Prefix: p, Clock: clock.Now, TTL: 1000 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			prefix[s] = p
			return s
		}
		storetest.Test(t, func(t *testing.T) segno.Store { return at(t, newPrefix()) }, storetest.Options{
			Clock:   clock,
			Another: func(t *testing.T, s segno.Store) segno.Store { return at(t, prefix[s]) },
		})
	})
	t.Run("a fork without a TTL", func(t *testing.T) {
		s, err := redis.OpenClient(t.Context(), c, redis.Options{Prefix: newPrefix()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		h := commit(t, s, turn(commit(t, s, create("T", "")), "one"))
		fork := commit(t, s, create("F", h.Head))
		if got := load(t, s, commit(t, s, turn(fork, "two")).Head); len(got) != 4 || got[1].ID != "one" {
			t.Fatalf("the fork's line is %+v", got)
		}
	})
}
