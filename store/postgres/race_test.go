package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/storetest"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestLeasesGoByTheServersClock: without a clock of their own all machines ask one.
func TestLeasesGoByTheServersClock(t *testing.T) {
	s := openStore(t, Options{})
	if _, err := s.Commit(t.Context(), base("thread")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Acquire(t.Context(), segno.Lease{Thread: "thread", Owner: "one", Expires: time.Now().Add(-time.Minute)})
	if segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a lease that has ended: %v", err)
	}
	want, err := s.Acquire(t.Context(), segno.Lease{Thread: "thread", Owner: "one", Expires: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.LeaseOf(t.Context(), "thread"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// TestCollectingBesideWriters: writers name objects that were kept long ago, at any
// moment of collections that would drop them. Each commit has all it names, or is
// refused and names what is gone.
func TestCollectingBesideWriters(t *testing.T) {
	clock := storetest.NewClock()
	s := openStore(t, Options{Clock: clock.Now, MaxConns: 6})
	const writers, rounds = 4, 50
	var group sync.WaitGroup
	stop := make(chan struct{})
	collected := 0
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			clock.Advance(2 * time.Hour)
			done, err := s.Collect(t.Context(), segno.CollectPolicy{Trace: func(context.Context, segno.Objects, segno.Checkpoint, func(segno.Hash) bool) error { return nil }})
			if err != nil && segno.KindOf(err) != segno.KindBusy {
				t.Errorf("collecting: %v", err)
			}
			collected += done.Objects
		}
	})
	var writing sync.WaitGroup
	for k := range writers {
		writing.Go(func() {
			thread := segno.ThreadID(fmt.Sprint("thread ", k))
			head, err := s.Commit(t.Context(), base(thread))
			for i := 0; err == nil && i < rounds; i++ {
				head, err = commitOld(t, s, head, fmt.Sprintf("writer %d round %d", k, i))
			}
			if err != nil {
				t.Errorf("writer %d: %v", k, err)
			}
		})
	}
	writing.Wait()
	close(stop)
	group.Wait()
	named := 0
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range c.Refs() {
			named++
			if _, err := s.Objects().Get(t.Context(), h); err != nil {
				t.Errorf("%s names an object: %v", c.ID, err)
			}
		}
	}
	t.Logf("%d commits named an object, %d objects were collected", named, collected)
	if named == 0 {
		t.Error("no commit was made")
	}
}

// commitOld keeps an object and commits a checkpoint that names it, again and again until
// no collection came between.
func commitOld(t *testing.T, s *Store, head segno.Head, data string) (segno.Head, error) {
	for try := 0; ; try++ {
		b := s.Objects().Batch()
		name, err := b.Put(t.Context(), []byte(data))
		if err != nil {
			return head, err
		}
		staged, err := b.Stage(t.Context())
		if err == nil {
			err = s.Objects().Keep(t.Context(), staged)
		}
		if err != nil && segno.KindOf(err) != segno.KindNotFound {
			return head, err
		}
		c := segno.Commit{ID: segno.CommitID(fmt.Sprint(data, " try ", try)), Thread: head.Thread, Parent: head.Head, Expect: head.Head,
			Checkpoint: &segno.Checkpoint{State: &segno.Document{Data: name}}}
		next, err := s.Commit(t.Context(), c)
		if segno.KindOf(err) == segno.KindNotFound && strings.Contains(err.Error(), name.String()) {
			continue
		}
		return next, err
	}
}

// TestWritersInEachOthersWay: many threads at once bring the same objects in many
// orders, and move one workspace. All commits are made.
func TestWritersInEachOthersWay(t *testing.T) {
	s := openAt(t, server.URL, Options{MaxConns: 8}, func(*pgxpool.Config) {})
	const writers, rounds = 8, 8
	var group sync.WaitGroup
	errs := make([]error, writers)
	for k := range writers {
		group.Go(func() {
			head, err := s.Commit(t.Context(), base(segno.ThreadID(fmt.Sprint("thread ", k))))
			for i := 0; err == nil && i < rounds; i++ {
				b := s.Objects().Batch()
				for j := range 10 {
					_, putErr := b.Put(t.Context(), fmt.Append(nil, "round ", i, " object ", (j*(k+1))%10))
					err = errors.Join(err, putErr)
				}
				staged, stageErr := b.Stage(t.Context())
				c := segno.Commit{ID: segno.CommitID(fmt.Sprint("writer ", k, " round ", i)), Thread: head.Thread, Parent: head.Head, Expect: head.Head,
					Staged: staged, Workspace: &segno.WorkspaceState{Workspace: "w", Thread: head.Thread}, Checkpoint: &segno.Checkpoint{}}
				if err = errors.Join(err, stageErr); err == nil {
					head, err = s.Commit(t.Context(), c)
				}
			}
			errs[k] = err
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != writers*(rounds+1) {
		t.Errorf("%d checkpoints of %d writers", n, writers)
	}
}
