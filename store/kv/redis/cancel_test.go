package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/kv/redis"
	goredis "github.com/redis/go-redis/v9"
)

// TestADeadlineWhileTheServerIsSilent verifies that a call that waits for the server ends with
// its context, and that the error reports how the context ended.
func TestADeadlineWhileTheServerIsSilent(t *testing.T) {
	silent, err := serverrig.Redis(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := silent.Stop(); err != nil {
			t.Error(err)
		}
	})
	s, err := redis.Open(t.Context(), silent.URL, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "thread", Create: &segno.Thread{ID: "thread"}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}}); err != nil {
		t.Fatal(err)
	}
	o, err := goredis.ParseURL(silent.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	defer c.Close()
	if err := c.Do(t.Context(), "CLIENT", "PAUSE", 60_000, "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	late, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	began := time.Now()
	_, err = s.Head(late, "thread")
	if segno.KindOf(err) != segno.KindCancelled || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after %v head fails with %v of kind %q", time.Since(began).Round(time.Millisecond), err, segno.KindOf(err))
	}
}
