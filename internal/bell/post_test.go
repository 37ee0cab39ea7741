package bell

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
)

// asking is a post whose asker counts, and sees what the counter has.
func (c *counter) asking(asks *int) *Post {
	return NewPost(func(context.Context) (soon bool, err error) {
		c.seen.Lock()
		defer c.seen.Unlock()
		*asks++
		for id, after := range c.Waiting() {
			if c.seq > after {
				c.Ring(id)
				soon = true
			}
		}
		return soon, c.err
	})
}

func TestOneLooksOutForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asks := &counter{seq: 1}, 0
		post := c.asking(&asks)
		var all []<-chan outcome
		for i := range 100 {
			all = append(all, c.wait(t.Context(), segno.ThreadID(fmt.Sprint(i)), 1, post.Rest))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if asks < 60 || asks > 4*60+10 || c.looked() != 100 {
			t.Errorf("%d asks and %d looks in a minute", asks, c.looked())
		}
		c.set(2, nil)
		start := time.Now()
		for _, got := range all {
			if o := <-got; o != (outcome{seq: 2}) {
				t.Errorf("got %+v", o)
			}
		}
		if late := time.Since(start); late > longest {
			t.Errorf("all know it %s later", late)
		}
	})
}

func TestAPostIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asks := &counter{seq: 1}, 0
		post := c.asking(&asks)
		ctx, cancel := context.WithCancel(t.Context())
		first := c.wait(ctx, "t", 1, post.Rest)
		synctest.Wait()
		second := c.wait(t.Context(), "t", 1, post.Rest)
		synctest.Wait()
		cancel()
		if o := <-first; segno.KindOf(o.err) != segno.KindCancelled {
			t.Errorf("who leaves got %+v", o)
		}
		c.set(2, nil)
		start := time.Now()
		if o := <-second; o != (outcome{seq: 2}) || time.Since(start) > shortest {
			t.Errorf("after %s: %+v", time.Since(start), o)
		}
	})
}

// TestAPostThatChangesHandsIsStillAsked has askers come and go faster than one asks
// twice.
func TestAPostThatChangesHandsIsStillAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asks := &counter{seq: 1}, 0
		post := c.asking(&asks)
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			<-c.wait(ctx, "t", 1, post.Rest)
			cancel()
		}
		if asks < 90 || asks > 110 {
			t.Errorf("%d asks in a second", asks)
		}
	})
}

func TestAnAskThatFailsIsHeardByWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asks := &counter{seq: 1}, 0
		broken := errors.New("it is broken")
		fails := true
		inner := c.asking(&asks)
		post := NewPost(func(ctx context.Context) (bool, error) {
			if fails {
				fails = false
				return false, broken
			}
			return inner.ask(ctx)
		})
		first := c.wait(t.Context(), "t", 1, post.Rest)
		synctest.Wait()
		second := c.wait(t.Context(), "t", 1, post.Rest)
		if o := <-first; o.err != broken {
			t.Errorf("who asked got %+v", o)
		}
		c.set(2, nil)
		if o := <-second; o != (outcome{seq: 2}) {
			t.Errorf("the other got %+v", o)
		}
	})
}
