package notify

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

// counter is a thread whose seq the test increments.
type counter struct {
	Notifier
	seen  sync.Mutex // guards the following fields
	seq   int64
	reads int
	err   error
}

func (c *counter) read(context.Context, segno.ThreadID) (segno.Head, error) {
	c.seen.Lock()
	defer c.seen.Unlock()
	c.reads++
	return segno.Head{Seq: c.seq}, c.err
}

func (c *counter) set(seq int64, err error) {
	c.seen.Lock()
	defer c.seen.Unlock()
	c.seq, c.err = seq, err
}

func (c *counter) readCount() int {
	c.seen.Lock()
	defer c.seen.Unlock()
	return c.reads
}

// subscriptions returns the number of threads that have waiting callers.
func (c *counter) subscriptions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.threads)
}

type outcome struct {
	seq int64
	err error
}

func (c *counter) wait(ctx context.Context, thread segno.ThreadID, after int64, pause Pause) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		head, err := c.Wait(ctx, thread, after, c.read, pause)
		got <- outcome{head.Seq, err}
	}()
	return got
}

func TestNotifyWakesCallersOfTheThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		ctx, cancel := context.WithCancel(t.Context())
		a, b, other := c.wait(t.Context(), "t", 1, UntilNotified), c.wait(t.Context(), "t", 1, UntilNotified), c.wait(ctx, "other", 1, UntilNotified)
		synctest.Wait()
		c.set(2, nil)
		c.Notify("t")
		for _, got := range []<-chan outcome{a, b} {
			if o := <-got; o != (outcome{seq: 2}) {
				t.Errorf("got %+v", o)
			}
		}
		synctest.Wait()
		select {
		case o := <-other:
			t.Errorf("a caller that waits for another thread got %+v", o)
		default:
		}
		cancel()
		if o := <-other; segno.KindOf(o.err) != segno.KindCancelled {
			t.Errorf("after the context's end: %v", o.err)
		}
		if n := c.subscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestNotifyBelowTheSeqContinuesToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		got := c.wait(t.Context(), "t", 2, UntilNotified)
		for seq := range int64(3) {
			synctest.Wait()
			c.set(seq+1, nil)
			c.Notify("t")
		}
		if o := <-got; o != (outcome{seq: 3}) {
			t.Errorf("got %+v", o)
		}
	})
}

func TestNotifyAllWakesEveryCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		var all []<-chan outcome
		for i := range 5 {
			all = append(all, c.wait(t.Context(), segno.ThreadID(fmt.Sprint(i)), 1, UntilNotified))
		}
		synctest.Wait()
		end := errors.New("it is closed")
		c.set(1, end)
		c.NotifyAll()
		for _, got := range all {
			if o := <-got; o.err != end {
				t.Errorf("got %+v", o)
			}
		}
		if n := c.subscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestPollSeesACommitWithoutNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		got := c.wait(t.Context(), "t", 1, Poll())
		<-time.After(time.Minute)
		if n := c.readCount(); n < 60 || n > 4*60+10 {
			t.Errorf("%d reads in a minute", n)
		}
		c.set(2, nil)
		start := time.Now()
		if o := <-got; o != (outcome{seq: 2}) || time.Since(start) > maxInterval {
			t.Errorf("after %s: %+v", time.Since(start), o)
		}
	})
}

func TestNotifyInterruptsPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{seq: 1}
		got := c.wait(t.Context(), "t", 1, Poll())
		<-time.After(time.Minute + time.Millisecond)
		c.set(2, nil)
		start := time.Now()
		c.Notify("t")
		if o := <-got; o != (outcome{seq: 2}) || time.Since(start) != 0 {
			t.Errorf("after %s: %+v", time.Since(start), o)
		}
	})
}

func TestErrorOfPauseEndsTheWaiting(t *testing.T) {
	c := &counter{seq: 1}
	broken := errors.New("it is broken")
	_, err := c.Wait(t.Context(), "t", 1, c.read, func(context.Context, <-chan struct{}) error { return broken })
	if err != broken {
		t.Errorf("%v", err)
	}
}

// TestNotifyDuringARead notifies after the head was read and before the read returns.
func TestNotifyDuringARead(t *testing.T) {
	var n Notifier
	seq := int64(1)
	read := func(context.Context, segno.ThreadID) (segno.Head, error) {
		head := segno.Head{Seq: seq}
		if seq == 1 {
			seq = 2
			n.Notify("t")
		}
		return head, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	head, err := n.Wait(ctx, "t", 1, read, UntilNotified)
	if err != nil || head.Seq != 2 {
		t.Fatalf("%+v, %v", head, err)
	}
}

// TestWaitingReturnsTheLowestSeq has two callers that wait for one thread.
func TestWaitingReturnsTheLowestSeq(t *testing.T) {
	for _, order := range [][2]int64{{5, 100}, {100, 5}} {
		var n Notifier
		for _, after := range order {
			defer n.unsubscribe("t", n.subscribe("t", after))
		}
		if got := n.Waiting()["t"]; got != 5 {
			t.Errorf("%v: Waiting returns %d", order, got)
		}
	}
}
