package sqlite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
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
		Checkpoint: &segno.Checkpoint{Kind: segno.KindBase}})
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// follows is a step on a head.
func follows(head segno.Head, id segno.CommitID) segno.Commit {
	return segno.Commit{ID: id, Thread: head.Thread, Parent: head.Head, Expect: head.Head, Checkpoint: &segno.Checkpoint{Kind: segno.KindStep}}
}

func shut(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestOwnCommitsNeedNoLookout takes the lookout away, so that nothing is looked at: what
// this Store commits wakes by itself.
func TestOwnCommitsNeedNoLookout(t *testing.T) {
	s := openIn(t, t.TempDir(), Options{})
	l := <-s.watch.post
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
	s.watch.post <- l
	if l.conn != nil {
		t.Error("the lookout was asked")
	}
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
	if n := s.db.Stats().OpenConnections; n > 1+1+readers {
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

// TestALookoutThatFails closes the lookout's connection under who has it: he hears of
// it, and the next one has a lookout again.
func TestALookoutThatFails(t *testing.T) {
	dir := t.TempDir()
	s, other := openIn(t, dir, Options{}), openIn(t, dir, Options{})
	defer shut(t, other)
	head := made(t, s, "t")
	l := <-s.watch.post
	if _, err := s.ask(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := l.conn.close(); err != nil {
		t.Fatal(err)
	}
	s.watch.post <- l
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
	l := <-s.watch.post
	for b.Loop() {
		if _, err := s.ask(b.Context(), l); err != nil {
			b.Fatal(err)
		}
	}
	s.watch.post <- l
}
