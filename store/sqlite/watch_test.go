package sqlite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/notify"
)

// waits has n wait for the thread, and returns what they get.
func waits(ctx context.Context, s *Store, n int, thread segno.ThreadID, after int64) <-chan error {
	const patience = 10 * time.Second
	got := make(chan error, n)
	for range n {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			_, err := s.Wait(ctx, thread, after)
			got <- err
		}()
	}
	return got
}

// made makes a thread.
func made(t *testing.T, s *Store, id segno.ThreadID) segno.Head {
	t.Helper()
	head, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID(id + ", base"), Thread: id, Create: &segno.Thread{ID: id},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// follows is a step on a head.
func follows(head segno.Head, id segno.CommitID) segno.Commit {
	return segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}}
}

func shut(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestOwnCommitsNeedNoLookout has nobody look: what this Store commits wakes by itself.
func TestOwnCommitsNeedNoLookout(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	s.watch.poller = notify.NewSharedPoller(func(context.Context) (bool, error) { return false, nil })
	head := made(t, s, "t")
	wake := func(what string, do func() error) {
		t.Helper()
		got := waits(t.Context(), s, 3, "t", head.Seq)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-got; err != nil && segno.KindOf(err) != segno.KindNotFound {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	commit := func(c segno.Commit) func() error {
		return func() (err error) {
			c.Thread, c.Expect = "t", head.Head
			head, err = s.Commit(t.Context(), c)
			return err
		}
	}
	base := head.Head
	wake("a step", commit(follows(head, "step")))
	wake("an undo", commit(segno.Commit{ID: "undo", Move: &segno.Move{Head: base, Tip: "step"}}))
	wake("a delete", func() error { return s.Delete(t.Context(), "t") })
	shut(t, s)
}

// TestOneLookoutForAll has many wait and counts the connections that takes.
func TestOneLookoutForAll(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer shut(t, other)
	const threads, each = 20, 5
	var all []<-chan error
	var heads []segno.Head
	for i := range threads {
		head := made(t, s, segno.ThreadID(fmt.Sprint("t", i)))
		heads = append(heads, head)
		all = append(all, waits(t.Context(), s, each, head.Thread, head.Seq))
	}
	if n := s.db.Stats().OpenConnections; n > 1+1+maxReaders {
		t.Errorf("%d connections for %d who wait", n, threads*each)
	}
	var group sync.WaitGroup
	for i, got := range all {
		_, err := other.Commit(t.Context(), follows(heads[i], segno.CommitID(fmt.Sprint("c", i))))
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for range each {
				if err := <-got; err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	shut(t, s)
}

// TestTheLookoutIsHandedOn has who keeps the lookout leave, over and over, while
// another waits.
func TestTheLookoutIsHandedOn(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer shut(t, other)
	head := made(t, s, "t")
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		leaves := waits(ctx, s, 2, "t", head.Seq)
		stays := waits(t.Context(), s, 2, "t", head.Seq)
		cancel()
		for range 2 {
			if err := <-leaves; segno.KindOf(err) != segno.KindCancelled {
				t.Fatal(err)
			}
		}
		var err error
		head, err = other.Commit(t.Context(), follows(head, segno.CommitID(fmt.Sprint("c", i))))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-stays; err != nil {
				t.Fatal(err)
			}
		}
	}
	shut(t, s)
}

// TestADeleteAmidCommits deletes a thread in one Store while another thread moves there
// all the time: who waits in the other Store learns it.
func TestADeleteAmidCommits(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer shut(t, other)
	head, busy := made(t, s, "t"), made(t, other, "busy")
	got := waits(t.Context(), s, 1, "t", head.Seq)
	for i := 0; ; i++ {
		var err error
		if busy, err = other.Commit(t.Context(), follows(busy, segno.CommitID(fmt.Sprint("c", i)))); err != nil {
			t.Fatal(err)
		}
		if i == 20 {
			if err := other.Delete(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-got:
			if i < 20 || segno.KindOf(err) != segno.KindNotFound {
				t.Errorf("after %d commits: %v", i, err)
			}
			shut(t, s)
			return
		default:
		}
	}
}

// TestWhoWaitsForOthersIsLeftAlone counts how often those who wait for other threads
// look while one is busy.
func TestWhoWaitsForOthersIsLeftAlone(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	head := made(t, s, "quiet")
	looks := make(chan struct{}, 1000)
	busy := made(t, s, "busy")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.watch.notifier.Wait(ctx, "quiet", head.Seq, func(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
			looks <- struct{}{}
			return s.Head(ctx, id)
		}, s.watch.poller.Pause)
		done <- err
	}()
	start := time.Now()
	for i := range 300 {
		var err error
		if busy, err = s.Commit(t.Context(), follows(busy, segno.CommitID(fmt.Sprint("c", i)))); err != nil {
			t.Fatal(err)
		}
	}
	most := 4 + int(time.Since(start)/wakeAllPause)
	cancel()
	if err := <-done; segno.KindOf(err) != segno.KindCancelled {
		t.Error(err)
	}
	if n := len(looks); n > most {
		t.Errorf("it was looked at %d times, want at most %d", n, most)
	}
	shut(t, s)
}

// TestALookoutThatFails closes the lookout's connection under who has it: he hears of
// it, and the next one has a lookout again.
func TestALookoutThatFails(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer shut(t, other)
	head := made(t, s, "t")
	if _, err := s.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.watch.conn.close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waits(t.Context(), s, 1, "t", head.Seq); err == nil {
		t.Error("nobody hears that nothing is looked at")
	}
	got := waits(t.Context(), s, 2, "t", head.Seq)
	if _, err := other.Commit(t.Context(), follows(head, "c")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	shut(t, s)
}

// BenchmarkLookout is what it costs to find that nobody has committed.
func BenchmarkLookout(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		if _, err := s.poll(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
