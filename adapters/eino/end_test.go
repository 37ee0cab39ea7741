package segnoeino_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/compose"
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

// A node fails after it got the answer to its question. The next call has the answer, too, and the question is not asked again.
func TestAnAnswerSurvivesAFailedNode(t *testing.T) {
	c, asked, failures := newCheckpoints(t), 0, 0
	r := chain(t, c, []string{"a", "pay", "c"}, func(ctx context.Context, node, in string) (string, error) {
		if node != "pay" {
			return in + node, nil
		}
		if answered, _, text := compose.GetResumeContext[string](ctx); !answered {
			asked++
			return "", compose.Interrupt(ctx, "pay?")
		} else if failures++; failures == 1 {
			return "", errors.New("no connection")
		} else {
			return in + text, nil
		}
	})
	call := segnoeino.Call{Thread: "t"}
	_, err := segnoeino.Invoke(t.Context(), c, r, call, "x")
	if _, isAsked := compose.ExtractInterruptInfo(err); !isAsked {
		t.Fatal(err)
	}
	for _, want := range []string{"", "xayesc"} {
		if call.Resume, err = c.Answers(t.Context(), "t", "yes"); err != nil || len(call.Resume) != 1 {
			t.Fatalf("%v, %v", call.Resume, err)
		}
		if out, err := segnoeino.Invoke(t.Context(), c, r, call, "x"); out != want || (err == nil) != (want != "") {
			t.Errorf("%q, %v", out, err)
		}
	}
	if all, err := c.Answers(t.Context(), "t", "yes"); err != nil || len(all) != 0 || asked != 1 {
		t.Errorf("the question was asked %d times; open are %v, %v", asked, all, err)
	}
}
