package sqlite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/notify"
)

// startWaiting starts n callers that wait for a thread, and returns their errors.
func startWaiting(ctx context.Context, s *Store, n int, thread segno.ThreadID, after int64) <-chan error {
	const patience = 5 * time.Minute
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

func createThread(t *testing.T, s *Store, id segno.ThreadID) segno.Head {
	t.Helper()
	head, err := s.Commit(t.Context(), segno.Commit{ID: segno.CommitID(id + ", base"), Thread: id, Create: &segno.Thread{ID: id},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func nextStep(head segno.Head, id segno.CommitID) segno.Commit {
	return segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep}}
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestOwnCommitsNeedNoPolling verifies that a commit of the same Store wakes waiting callers without polling.
func TestOwnCommitsNeedNoPolling(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	s.watch.Poller = notify.NewSharedPoller(func(context.Context) (bool, error) { return false, nil })
	head := createThread(t, s, "t")
	wake := func(what string, do func() error) {
		t.Helper()
		got := startWaiting(t.Context(), s, 3, "t", head.Seq)
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
	wake("a step", commit(nextStep(head, "step")))
	wake("an undo", commit(segno.Commit{ID: "undo", Move: &segno.Move{Head: base, Tip: "step"}}))
	wake("a delete", func() error { return s.Delete(t.Context(), "t") })
	closeStore(t, s)
}

// TestOneCallerPollsForAll counts the connections while many callers wait.
func TestOneCallerPollsForAll(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer closeStore(t, other)
	const threads, each = 20, 5
	var all []<-chan error
	var heads []segno.Head
	for i := range threads {
		head := createThread(t, s, segno.ThreadID(fmt.Sprint("t", i)))
		heads = append(heads, head)
		all = append(all, startWaiting(t.Context(), s, each, head.Thread, head.Seq))
	}
	if n := s.db.Stats().OpenConnections; n > 1+1+maxReaders {
		t.Errorf("%d connections for %d who wait", n, threads*each)
	}
	var group sync.WaitGroup
	for i, got := range all {
		_, err := other.Commit(t.Context(), nextStep(heads[i], segno.CommitID(fmt.Sprint("c", i))))
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
	closeStore(t, s)
}

// TestPollingPassesToAnotherCaller repeatedly ends the caller that polls while another caller waits.
func TestPollingPassesToAnotherCaller(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer closeStore(t, other)
	head := createThread(t, s, "t")
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		leaves := startWaiting(ctx, s, 2, "t", head.Seq)
		stays := startWaiting(t.Context(), s, 2, "t", head.Seq)
		cancel()
		for range 2 {
			if err := <-leaves; segno.KindOf(err) != segno.KindCancelled {
				t.Fatal(err)
			}
		}
		var err error
		head, err = other.Commit(t.Context(), nextStep(head, segno.CommitID(fmt.Sprint("c", i))))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-stays; err != nil {
				t.Fatal(err)
			}
		}
	}
	closeStore(t, s)
}

// TestDeleteAmongCommits deletes a thread in one Store while another thread changes constantly. A caller that
// waits in another Store must get KindNotFound.
func TestDeleteAmongCommits(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer closeStore(t, other)
	head, busy := createThread(t, s, "t"), createThread(t, other, "busy")
	got := startWaiting(t.Context(), s, 1, "t", head.Seq)
	for i := 0; ; i++ {
		var err error
		if busy, err = other.Commit(t.Context(), nextStep(busy, segno.CommitID(fmt.Sprint("c", i)))); err != nil {
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
			closeStore(t, s)
			return
		default:
		}
	}
}

// TestCallersOfIdleThreadsSleep counts how often callers read the heads of idle threads while another
// thread is busy.
func TestCallersOfIdleThreadsSleep(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	head := createThread(t, s, "quiet")
	looks := make(chan struct{}, 1000)
	busy := createThread(t, s, "busy")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.watch.Notifier.Wait(ctx, "quiet", head.Seq, func(ctx context.Context, id segno.ThreadID) (segno.Head, error) {
			looks <- struct{}{}
			return s.Head(ctx, id)
		}, s.watch.Poller.Pause)
		done <- err
	}()
	for i := range 300 {
		var err error
		if busy, err = s.Commit(t.Context(), nextStep(busy, segno.CommitID(fmt.Sprint("c", i)))); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; segno.KindOf(err) != segno.KindCancelled {
		t.Error(err)
	}
	if n := len(looks); n > 1 {
		t.Errorf("the head of the idle thread was read %d times", n)
	}
	closeStore(t, s)
}

// BenchmarkPoll measures a poll that finds no commit.
func BenchmarkPoll(b *testing.B) {
	s := benchStore(b)
	c := <-s.writer
	defer func() { s.writer <- c }()
	for b.Loop() {
		if _, err := hasChanged(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
