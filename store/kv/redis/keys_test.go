package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv/redis"
	goredis "github.com/redis/go-redis/v9"
)

func conflict(err error) (segno.Head, bool) {
	var c *segno.ConflictError
	if errors.As(err, &c) {
		return c.Actual, true
	}
	return segno.Head{}, false
}

func head(t *testing.T, s segno.Store, thread segno.ThreadID) segno.Head {
	t.Helper()
	h, err := s.Head(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestEveryKeyHasATTL checks all keys after each commit: the thread's own key has the whole TTL
// again, and all other keys that it needs have more left.
func TestEveryKeyHasATTL(t *testing.T) {
	const ttl = time.Hour
	c, prefix := client(t), newPrefix()
	clock := atomic.Int64{}
	s := open(t, redis.Options{Prefix: prefix, TTL: ttl, Clock: func() time.Time { return day.Add(time.Duration(clock.Load())) }})
	defer s.Close()
	h := commit(t, s, create("T", ""))
	fork := segno.Head{}
	for i, id := range []string{"one", "two", "three", "four", "five"} {
		next := turn(h, id)
		next.Link = &segno.Link{Session: segno.SessionID(id), Start: day}
		b := s.Objects().Batch()
		if _, err := b.Put(t.Context(), []byte(id)); err != nil {
			t.Fatal(err)
		}
		var err error
		if next.Staged, err = b.Stage(t.Context()); err != nil {
			t.Fatal(err)
		}
		h = commit(t, s, next)
		keys := 0
		for _, key := range c.Keys(t.Context(), prefix+"*").Val() {
			left := c.PTTL(t.Context(), key).Val()
			keys++
			switch name := strings.TrimPrefix(key, prefix); {
			case name == "threads{}":
				if left != -1 {
					t.Fatalf("the list of threads has %v to live", left)
				}
			case name == "t{T}":
				if left < ttl-time.Minute || left > ttl {
					t.Fatalf("after %s the thread has %v to live", id, left)
				}
			case left < ttl-time.Minute && !strings.Contains(key, "F"):
				t.Fatalf("after %s, %s has %v to live", id, key, left)
			}
		}
		if want := 3 + 3*(i+1); keys < want {
			t.Fatalf("after %s there are %d keys; want %d", id, keys, want)
		}
		if id == "two" {
			fork = commit(t, s, create("F", "one"))
		}
		clock.Add(int64(ttl * 3 / 4))
		pass(t, c, prefix, ttl*3/4)
		if fork.Thread != "" {
			fork = commit(t, s, turn(fork, "fork "+id))
		}
	}
	// the thread expires, and its fork continues
	clock.Add(int64(ttl / 2))
	pass(t, c, prefix, ttl/2)
	if _, err := s.Head(t.Context(), "T"); segno.KindOf(err) != segno.KindNotFound {
		t.Fatalf("the thread is still there: %v", err)
	}
	cold := open(t, redis.Options{Prefix: prefix, TTL: ttl})
	defer cold.Close()
	line := load(t, cold, head(t, cold, "F").Head)
	if line[0].ID != "base of T" || line[1].ID != "one" || len(line[1].Entries) != 1 || len(line) != 7 {
		t.Fatalf("the fork's line is %d long and begins %+v", len(line), line[:2])
	}
	if got := load(t, cold, "one"); len(got) != 2 {
		t.Fatalf("what was inherited loads as %+v", got)
	}
}

// TestOneKeyPerThread checks the keys of a thread with hostile ids: all its own values are in
// one hash, and no id escapes its place in a key.
func TestOneKeyPerThread(t *testing.T) {
	c, prefix := client(t), newPrefix()
	s := open(t, redis.Options{Prefix: prefix})
	defer s.Close()
	ids := []segno.ThreadID{"a:b", "a", "a}", "{a}", "a{b}c", "a\x00b", "a*", "a/log", "%7B", "é}", "}"}
	for _, id := range ids {
		h := commit(t, s, create(id, ""))
		commit(t, s, turn(h, "turn of "+string(id)))
	}
	own := 0
	for _, key := range c.Keys(t.Context(), "*").Val() {
		name, ours := strings.CutPrefix(key, prefix)
		if !ours {
			continue
		}
		if strings.Count(name, "{") != 1 || strings.Count(name, "}") != 1 || !strings.HasSuffix(name, "}") || strings.ContainsAny(name, "\x00:*/ ") {
			t.Fatalf("a key is %q", key)
		}
		if strings.HasPrefix(name, "t{") {
			own++
		}
	}
	if own != len(ids) {
		t.Fatalf("%d threads have %d keys of their own", len(ids), own)
	}
	listed := map[segno.ThreadID]bool{}
	for x, err := range s.Threads(t.Context(), segno.ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed[x.ID] = true
	}
	for _, id := range ids {
		if !listed[id] {
			t.Fatalf("%q is not listed", id)
		}
	}
}

// trips counts the round trips of a client, except for those that set up a connection.
type trips struct{ n atomic.Int64 }

func (h *trips) count(first goredis.Cmder) {
	if name := first.Name(); name != "hello" && name != "client" {
		h.n.Add(1)
	}
}

func (h *trips) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *trips) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		h.count(cmd)
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.count(cmds[0])
		return next(ctx, cmds)
	}
}

// TestRoundTrips verifies their number: one for a commit on the head that the store has read,
// and two for the head and its line, of any length, in a process with an empty cache.
func TestRoundTrips(t *testing.T) {
	c, prefix := client(t), newPrefix()
	h := new(trips)
	c.AddHook(h)
	at := func() *redis.Store {
		s, err := redis.OpenClient(t.Context(), c, redis.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := at()
	now := commit(t, s, create("T", ""))
	for i := range 300 {
		before := h.n.Load()
		next := turn(now, "turn "+string(rune('a'+i%26))+strings.Repeat("x", i/26))
		next.Entries[0].Body = []byte(`"` + strings.Repeat(segno.NewID(), 270) + `"`)
		now = commit(t, s, next)
		if n := h.n.Load() - before; n != 1 {
			t.Fatalf("commit %d took %d round trips", i, n)
		}
	}
	cold := at()
	before := h.n.Load()
	line := load(t, cold, head(t, cold, "T").Head)
	if n := h.n.Load() - before; n != 2 || len(line) != 301 {
		t.Fatalf("head and line of %d commits took %d round trips", len(line), n)
	}
	before = h.n.Load()
	load(t, at(), line[200].ID)
	if n := h.n.Load() - before; n != 3 { // the seal mark, an index entry, a line
		t.Fatalf("a line that nobody had seen took %d round trips", n)
	}
	before = h.n.Load()
	n := 0
	for _, err := range cold.Checkpoints(t.Context(), segno.CheckpointQuery{Thread: "T", Limit: 100}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if got := h.n.Load() - before; got != 2 || n != 100 {
		t.Fatalf("a list of %d took %d round trips", n, got)
	}
}

// TestAnotherKindOfKey puts a string at the key of a thread's hash.
func TestAnotherKindOfKey(t *testing.T) {
	c, prefix := client(t), newPrefix()
	s := open(t, redis.Options{Prefix: prefix})
	defer s.Close()
	if err := c.Set(t.Context(), prefix+"t{T}", "a string", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Head(t.Context(), "T")
	if segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), "t{T}head") {
		t.Fatalf("the head: %v", err)
	}
	if _, err = s.Commit(t.Context(), create("T", "")); segno.KindOf(err) != segno.KindCorrupt {
		t.Fatalf("a commit: %v", err)
	}
	if got := c.Get(t.Context(), prefix+"t{T}").Val(); got != "a string" {
		t.Fatalf("it is now %q", got)
	}
}

func TestOpen(t *testing.T) {
	for url, kind := range map[string]segno.Kind{
		"http://secret@here": segno.KindInvalid, "redis://:secret@[::1": segno.KindInvalid, "redis://:secret@127.0.0.1:1/0": segno.KindIO,
	} {
		_, err := redis.Open(t.Context(), url, redis.Options{})
		if segno.KindOf(err) != kind || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := redis.Open(t.Context(), server.URL, redis.Options{Prefix: "a{b}"}); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a prefix with braces: %v", err)
	}
}
