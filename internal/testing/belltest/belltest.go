// Package belltest proves of a store that its own writes ring its bells.
package belltest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/bell"
)

// patience is how long a ring may take to be heard.
const patience = 10 * time.Second

// Hears has somebody wait who listens to b and does not look by himself, while a thread
// is committed to and deleted.
func Hears(ctx context.Context, s segno.Store, b *bell.Bells) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	head, err := s.Commit(ctx, segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		return err
	}
	next, err := after(ctx, s, b, head, func() error {
		_, err := s.Commit(ctx, segno.Commit{ID: "step", Thread: "t", Parent: "base", Expect: "base",
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}})
		return err
	})
	if err != nil || next.Head != "step" {
		return fmt.Errorf("a commit: heard of %q: %w", next.Head, err)
	}
	_, err = after(ctx, s, b, next, func() error { return s.Delete(ctx, "t") })
	if segno.KindOf(err) != segno.KindNotFound {
		return fmt.Errorf("a delete: heard: %w", err)
	}
	return nil
}

// after is what somebody hears who waits when do is done.
func after(ctx context.Context, s segno.Store, b *bell.Bells, head segno.Head, do func() error) (segno.Head, error) {
	listening, heard := make(chan struct{}), make(chan error, 1)
	var now segno.Head
	go func() {
		var err error
		now, err = b.Wait(ctx, "t", head.Seq, s.Head, func(ctx context.Context, rung <-chan struct{}) error {
			close(listening)
			return bell.Rung(ctx, rung)
		})
		heard <- err
	}()
	<-listening
	err := errors.Join(do(), <-heard)
	return now, err
}
