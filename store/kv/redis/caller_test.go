package redis_test

import (
	"context"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/retryrig"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/store/kv/redis"
)

// openAgain opens a store like a program that may start while the server is down.
func openAgain(ctx context.Context, url string, _ func() error) (retryrig.Store, error) {
	for {
		s, err := redis.Open(ctx, url, redis.Options{})
		if err == nil {
			return s, nil
		}
		if kind := segno.KindOf(err); kind != segno.KindIO && kind != segno.KindBusy {
			return nil, err
		}
	}
}

// TestACallerThatRunsAgainOnAnyErrorFinishesOnce runs tasks while the store, the model and the
// tools fail at random and the caller's process and the server are killed. After any error it
// runs the same input again. Every task must finish, and each of its effects must happen once.
// Under SEGNO_SOAK there are 1,000 faults.
func TestACallerThatRunsAgainOnAnyErrorFinishesOnce(t *testing.T) {
	own, err := serverrig.Redis(t.Context(), "", serverrig.RedisNoSync()...)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	retryrig.Run(t, retryrig.RetryTrial{Open: "redis", Where: own.URL, Server: own, Faults: retryrig.Faults(t)})
}
