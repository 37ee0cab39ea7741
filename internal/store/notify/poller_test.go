package notify

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
)

// newPoller returns a poller that counts its polls and reads c's seq.
func (c *counter) newPoller(polls *int) *SharedPoller {
	return NewSharedPoller(func(context.Context) (soon bool, err error) {
		c.seen.Lock()
		defer c.seen.Unlock()
		*polls++
		for id, after := range c.Waiting() {
			if c.seq > after {
				c.Notify(id)
				soon = true
			}
		}
		return soon, c.err
	})
}

func TestOneCallerPollsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, polls := &counter{seq: 1}, 0
		poller := c.newPoller(&polls)
		var all []<-chan outcome
		for i := range 100 {
			all = append(all, c.wait(t.Context(), segno.ThreadID(fmt.Sprint(i)), 1, poller.Pause))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if polls < 60 || polls > 4*60+10 || c.readCount() != 100 {
			t.Errorf("%d polls and %d reads in a minute", polls, c.readCount())
		}
		c.set(2, nil)
		start := time.Now()
		for _, got := range all {
			if o := <-got; o != (outcome{seq: 2}) {
				t.Errorf("got %+v", o)
			}
		}
		if late := time.Since(start); late > maxInterval {
			t.Errorf("all callers are notified %s later", late)
		}
	})
}

func TestAnotherCallerTakesOverPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, polls := &counter{seq: 1}, 0
		poller := c.newPoller(&polls)
		ctx, cancel := context.WithCancel(t.Context())
		first := c.wait(ctx, "t", 1, poller.Pause)
		synctest.Wait()
		second := c.wait(t.Context(), "t", 1, poller.Pause)
		synctest.Wait()
		cancel()
		if o := <-first; segno.KindOf(o.err) != segno.KindCancelled {
			t.Errorf("the caller that left got %+v", o)
		}
		c.set(2, nil)
		start := time.Now()
		if o := <-second; o != (outcome{seq: 2}) || time.Since(start) > minInterval {
			t.Errorf("after %s: %+v", time.Since(start), o)
		}
	})
}

// TestPollingContinuesWhileCallersChange lets callers come and go so fast that none of them polls
// twice.
func TestPollingContinuesWhileCallersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, polls := &counter{seq: 1}, 0
		poller := c.newPoller(&polls)
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			<-c.wait(ctx, "t", 1, poller.Pause)
			cancel()
		}
		if polls < 90 || polls > 110 {
			t.Errorf("%d polls in a second", polls)
		}
	})
}

func TestErrorOfPollReachesTheCallerThatPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, polls := &counter{seq: 1}, 0
		broken := errors.New("it is broken")
		fails := true
		inner := c.newPoller(&polls)
		poller := NewSharedPoller(func(ctx context.Context) (bool, error) {
			if fails {
				fails = false
				return false, broken
			}
			return inner.poll(ctx)
		})
		first := c.wait(t.Context(), "t", 1, poller.Pause)
		synctest.Wait()
		second := c.wait(t.Context(), "t", 1, poller.Pause)
		if o := <-first; o.err != broken {
			t.Errorf("the caller that polled got %+v", o)
		}
		c.set(2, nil)
		if o := <-second; o != (outcome{seq: 2}) {
			t.Errorf("the other caller got %+v", o)
		}
	})
}
