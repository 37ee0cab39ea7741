package bell

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter is a thread's seq that somebody counts up.
type counter struct {
	Bells
	seen  sync.Mutex // guards what follows
	seq   int64
	looks int
	err   error
}

func (c *counter) look(context.Context, segno.ThreadID) (segno.Head, error) {
	c.seen.Lock()
	defer c.seen.Unlock()
	c.looks++
	return segno.Head{Seq: c.seq}, c.err
}

func (c *counter) set(seq int64, err error) {
	c.seen.Lock()
	defer c.seen.Unlock()
	c.seq, c.err = seq, err
}

func (c *counter) looked() int {
	c.seen.Lock()
	defer c.seen.Unlock()
	return c.looks
}

// held is how many threads have a bell.
func (c *counter) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.threads)
}

type outcome struct {
	seq int64
	err error
}

func (c *counter) wait(ctx context.Context, thread segno.ThreadID, after int64, rest Rest) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		head, err := c.Wait(ctx, thread, after, c.look, rest)
		got <- outcome{head.Seq, err}
	}()
	return got
}

func TestABellWakesItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		ctx, cancel := context.WithCancel(t.Context())
		a, b, other := c.wait(t.Context(), "t", 1, Rung), c.wait(t.Context(), "t", 1, Rung), c.wait(ctx, "other", 1, Rung)
		synctest.Wait()
		c.set(2, nil)
		c.Ring("t")
		for _, got := range []<-chan outcome{a, b} {
			if o := <-got; o != (outcome{seq: 2}) {
				t.Errorf("got %+v", o)
			}
		}
		synctest.Wait()
		select {
		case o := <-other:
			t.Errorf("another thread's waiter got %+v", o)
		default:
		}
		cancel()
		if o := <-other; segno.KindOf(o.err) != segno.KindCancelled {
			t.Errorf("after the context's end: %v", o.err)
		}
		if n := c.held(); n != 0 {
			t.Errorf("%d bells are left", n)
		}
	})
}

func TestABellThatRingsForNothingIsHeardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		got := c.wait(t.Context(), "t", 2, Rung)
		for seq := range int64(3) {
			synctest.Wait()
			c.set(seq+1, nil)
			c.Ring("t")
		}
		if o := <-got; o != (outcome{seq: 3}) {
			t.Errorf("got %+v", o)
		}
	})
}

func TestAllAreWokenToLearnOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		var all []<-chan outcome
		for i := range 5 {
			all = append(all, c.wait(t.Context(), segno.ThreadID(fmt.Sprint(i)), 1, Rung))
		}
		synctest.Wait()
		end := errors.New("it is closed")
		c.set(1, end)
		c.RingAll()
		for _, got := range all {
			if o := <-got; o.err != end {
				t.Errorf("got %+v", o)
			}
		}
		if n := c.held(); n != 0 {
			t.Errorf("%d bells are left", n)
		}
	})
}

func TestNobodyWakesAndYetItIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		got := c.wait(t.Context(), "t", 1, NowAndThen())
		<-time.After(time.Minute)
		if n := c.looked(); n < 60 || n > 4*60+10 {
			t.Errorf("%d looks in a minute", n)
		}
		c.set(2, nil)
		start := time.Now()
		if o := <-got; o != (outcome{seq: 2}) || time.Since(start) > longest {
			t.Errorf("after %s: %+v", time.Since(start), o)
		}
	})
}

func TestABellInterruptsARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		got := c.wait(t.Context(), "t", 1, NowAndThen())
		<-time.After(time.Minute + time.Millisecond)
		c.set(2, nil)
		start := time.Now()
		c.Ring("t")
		if o := <-got; o != (outcome{seq: 2}) || time.Since(start) != 0 {
			t.Errorf("after %s: %+v", time.Since(start), o)
		}
	})
}

func TestARestThatCannotGoOnEndsTheWaiting(t *testing.T) {
	c := &counter{seq: 1}
	broken := errors.New("it is broken")
	_, err := c.Wait(t.Context(), "t", 1, c.look, func(context.Context, <-chan struct{}) error { return broken })
	if err != broken {
		t.Errorf("%v", err)
	}
}

// TestWhatLandsDuringALook rings after the look has read, and before its answer is here.
func TestWhatLandsDuringALook(t *testing.T) {
	var b Bells
	seq := int64(1)
	look := func(context.Context, segno.ThreadID) (segno.Head, error) {
		head := segno.Head{Seq: seq}
		if seq == 1 {
			seq = 2
			b.Ring("t")
		}
		return head, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	head, err := b.Wait(ctx, "t", 1, look, Rung)
	if err != nil || head.Seq != 2 {
		t.Fatalf("%+v, %v", head, err)
	}
}

// TestTheNearestCounts has two hold a bell: who waits for less is not forgotten.
func TestTheNearestCounts(t *testing.T) {
	for _, order := range [][2]int64{{5, 100}, {100, 5}} {
		var b Bells
		for _, after := range order {
			defer b.drop("t", b.hold("t", after))
		}
		if got := b.Waiting()["t"]; got != 5 {
			t.Errorf("%v: it is said to wait above %d", order, got)
		}
	}
}
