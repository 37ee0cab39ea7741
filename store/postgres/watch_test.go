package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/bell"
)

// TestOwnCommitsAreHeardOf has somebody wait who listens and does not look by himself.
func TestOwnCommitsAreHeardOf(t *testing.T) {
	s := openStore(t, Options{})
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	head, err := s.Commit(ctx, segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t"},
		Checkpoint: &segno.Checkpoint{Kind: segno.KindBase}})
	if err != nil {
		t.Fatal(err)
	}
	listening, heard := make(chan struct{}), make(chan error)
	listen := func(ctx context.Context, rung <-chan struct{}) error {
		listening <- struct{}{}
		return bell.Rung(ctx, rung)
	}
	for _, do := range []func() error{
		func() (err error) {
			head, err = s.Commit(ctx, segno.Commit{ID: "step", Thread: "t", Parent: "base", Expect: "base",
				Checkpoint: &segno.Checkpoint{Kind: segno.KindStep}})
			return err
		},
		func() error { return s.Delete(ctx, "t") },
	} {
		after := head.Seq
		go func() {
			_, err := s.watch.bells.Wait(ctx, "t", after, s.Head, listen)
			heard <- err
		}()
		<-listening
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if err := <-heard; err != nil && segno.KindOf(err) != segno.KindNotFound {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
