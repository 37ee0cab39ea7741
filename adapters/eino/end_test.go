package segnoeino_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/store/memory"
)

// slowRelease is a store that takes a second to release a lease.
type slowRelease struct{ *memory.Store }

func (s slowRelease) Release(ctx context.Context, l segno.Lease) error {
	time.Sleep(time.Second)
	return s.Store.Release(ctx, l)
}

// A caller that read a stream to its end can call the thread again at once.
func TestAStreamEndsAfterItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowRelease{memory.New(time.Now)}
		defer store.Close()
		c := segnoeino.New(store)
		r := chain(t, c, []string{"a"}, func(_ context.Context, node, in string) (string, error) { return in + node, nil })
		for range 2 {
			stream, err := segnoeino.Stream(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "x")
			if err != nil {
				t.Fatal(err)
			}
			for ; err == nil; _, err = stream.Recv() {
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			stream.Close()
		}
	})
}

// A node that was cancelled may have had its effect, as one that a crash interrupted.
func TestACancelledNodeIsNotRepeatedSilently(t *testing.T) {
	c, ran := newCheckpoints(t), ""
	ctx, cancel := context.WithCancel(t.Context())
	r := chain(t, c, []string{"a", "b"}, func(ctx context.Context, node, in string) (string, error) {
		if ran += node; ran == "ab" {
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		}
		return in + node, nil
	})
	if _, err := segnoeino.Invoke(ctx, c, r, segnoeino.Call{Thread: "t"}, "x"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var lost *segnoeino.LostError
	if _, err := segnoeino.Invoke(t.Context(), c, r, segnoeino.Call{Thread: "t"}, "x"); !errors.As(err, &lost) || len(lost.Nodes) != 1 || lost.Nodes[0] != (segnoeino.LostNode{Node: "b"}) {
		t.Errorf("the next run: %v", err)
	}
	if ran != "ab" {
		t.Errorf("%q ran", ran)
	}
	call := segnoeino.Call{Thread: "t", Repeat: func(node string) bool { return node == "b" }}
	if out, err := segnoeino.Invoke(t.Context(), c, r, call, "x"); err != nil || out != "xab" || ran != "abb" {
		t.Errorf("%q, %v; %q ran", out, err, ran)
	}
}
