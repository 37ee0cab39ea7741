// Package notifytest checks that a store's own writes notify the callers that wait.
package notifytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
)

// timeout is the longest time before a notification arrives.
const timeout = 5 * time.Minute

// Check commits to a thread of s and then deletes the thread, while a caller waits that reads
// the head only when n notifies it.
func Check(ctx context.Context, s segno.Store, n *notify.Notifier) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	head, err := s.Commit(ctx, segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		return err
	}
	next, err := waitDuring(ctx, s, n, head, func() error {
		_, err := s.Commit(ctx, segno.Commit{ID: "step", Thread: "t", Parent: "base", Expect: "base",
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}})
		return err
	})
	if err != nil || next.Head != "step" {
		return fmt.Errorf("after a commit: got head %q: %w", next.Head, err)
	}
	_, err = waitDuring(ctx, s, n, next, func() error { return s.Delete(ctx, "t") })
	if !errors.Is(err, segno.KindNotFound) {
		return fmt.Errorf("after a delete: got error: %w", err)
	}
	return nil
}

// waitDuring returns the result of a caller that waits while write runs.
func waitDuring(ctx context.Context, s segno.Store, n *notify.Notifier, head segno.Head, write func() error) (segno.Head, error) {
	waiting, done := make(chan struct{}), make(chan error, 1)
	var now segno.Head
	go func() {
		var err error
		now, err = n.Wait(ctx, "t", head.Seq, s.Head, func(ctx context.Context, notified <-chan struct{}) error {
			close(waiting)
			return notify.UntilNotified(ctx, notified)
		})
		done <- err
	}()
	<-waiting
	err := errors.Join(write(), <-done)
	return now, err
}
