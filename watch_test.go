package segno_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
)

// looked is a store that counts the reads of a head and is not a Watcher.
type looked struct {
	segno.Store
	heads atomic.Int64
}

func (l *looked) Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error) {
	l.heads.Add(1)
	return l.Store.Head(ctx, thread)
}

// begun is a store with one thread.
func begun(t *testing.T) (*looked, segno.Head) {
	t.Helper()
	s := memory.New(nil)
	head, err := s.Commit(t.Context(), segno.Commit{ID: "base", Thread: "t", Create: &segno.Thread{ID: "t"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		t.Fatal(err)
	}
	return &looked{Store: s}, head
}

func step(head segno.Head, id segno.CommitID) segno.Commit {
	return segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1}}
}

func TestAnIdleWaiterLooksFourTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, head := begun(t)
		got := make(chan segno.Head)
		go func() {
			h, err := segno.Wait(t.Context(), s, head.Thread, head.Seq)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		const idle = time.Hour
		<-time.After(idle)
		if n := s.heads.Load(); n < 3600 || n > 4*3600+10 {
			t.Errorf("%d looks in %s", n, idle)
		}
		want, err := s.Commit(t.Context(), step(head, "one"))
		if err != nil {
			t.Fatal(err)
		}
		committed := time.Now()
		if h := <-got; h != want {
			t.Errorf("the head is %+v, want %+v", h, want)
		}
		if late := time.Since(committed); late > 250*time.Millisecond {
			t.Errorf("it is known %s later", late)
		}
	})
}

func TestAThreadThatMovesIsLookedAtSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, head := begun(t)
		for i := range 100 {
			time.AfterFunc(15*time.Millisecond, func() {
				if _, err := s.Commit(t.Context(), step(head, segno.CommitID('a'+rune(i)))); err != nil {
					t.Error(err)
				}
			})
			start := time.Now()
			var err error
			if head, err = segno.Wait(t.Context(), s, head.Thread, head.Seq); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(start); late > 30*time.Millisecond {
				t.Fatalf("commit %d is known after %s", i, late)
			}
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, head := begun(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := segno.Wait(ctx, s, head.Thread, head.Seq)
		if segno.KindOf(err) != segno.KindCancelled || time.Since(start) != time.Minute {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestAStoreThatCanBeWatchedIsNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, head := begun(t)
		able := struct {
			*looked
			segno.Watcher
		}{s, s.Store.(segno.Watcher)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := segno.Wait(ctx, able, head.Thread, head.Seq); segno.KindOf(err) != segno.KindCancelled {
			t.Error(err)
		}
		if n := s.heads.Load(); n != 0 {
			t.Errorf("%d looks", n)
		}
	})
}
