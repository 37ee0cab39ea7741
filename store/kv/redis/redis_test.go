package redis_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/retryrig"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/storetest"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// server is one Redis for all tests; each test uses a separate prefix.
var server *serverrig.Server

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{}) // go-redis would log the killed servers
	retryrig.Main(map[string]retryrig.Opener{"redis": openAgain})
	flag.Parse()
	if testing.Short() {
		fmt.Println("nothing is run with -short: servers are installed from the network")
		os.Exit(0)
	}
	var err error
	if server, err = serverrig.Redis(context.Background(), "", serverrig.RedisNoSync()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := errorsOf(server.Stop(), goleak.Find()); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// quiet is a logger that writes nothing.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), server.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	prefix := map[segno.Store]string{}
	at := func(t *testing.T, p string) segno.Store {
		s := open(t, redis.Options{Clock: clock.Now, Prefix: p})
		prefix[s] = p
		return s
	}
	storetest.Test(t, func(t *testing.T) segno.Store { return at(t, newPrefix()) }, storetest.Options{
		Clock: clock,
		Reopen: func(t *testing.T, s segno.Store) segno.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return at(t, prefix[s])
		},
		Another: func(t *testing.T, s segno.Store) segno.Store { return at(t, prefix[s]) },
		Raw:     func(t *testing.T, s segno.Store) []byte { return raw(t, prefix[s]) },
	})
}

// raw returns all data of a store that the server holds.
func raw(t *testing.T, prefix string) (all []byte) {
	kv, err := redis.NewKV(client(t), prefix)
	if err != nil {
		t.Fatal(err)
	}
	for item, err := range kv.List(t.Context(), "", "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, item.Key...), item.Val...)
	}
	return all
}

func client(t testing.TB) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}
