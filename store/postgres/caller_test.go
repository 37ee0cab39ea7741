package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/retryrig"
)

// openAgain opens a store like a program that may start while the server is down. Its store stops retrying
// soon, so the agent and its caller must retry.
func openAgain(ctx context.Context, url string, _ func() error) (retryrig.Store, error) {
	for {
		s, err := Open(ctx, url, Options{Patience: time.Millisecond})
		if err == nil {
			return s, nil
		}
		if kind := segno.KindOf(err); kind != segno.KindIO && kind != segno.KindBusy {
			return nil, err
		}
	}
}

// TestACallerThatRunsAgainOnAnyErrorFinishesOnce runs tasks while the store, the model and the tools fail at
// random and the caller's process and the server are killed. After any error it runs the same input again.
// Every task must finish, and each of its effects must happen once. Under SEGNO_SOAK there are 1,000 faults.
func TestACallerThatRunsAgainOnAnyErrorFinishesOnce(t *testing.T) {
	own := ownServer(t)
	retryrig.Run(t, retryrig.RetryTrial{Open: "postgres", Where: own.URL, Server: own, Faults: retryrig.Faults(t)})
}
