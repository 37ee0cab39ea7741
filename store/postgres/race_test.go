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

// TestNULIsAByteLikeAnother verifies ids with NUL, which PostgreSQL's text cannot contain.
func TestNULIsAByteLikeAnother(t *testing.T) {
	s := openStore(t, Options{})
	const nul = "\x00a\x00"
	c := base(nul)
	c.ID = nul
	c.Create.Title, c.Create.Agent, c.Create.Workspace, c.Create.Name = nul, nul, nul, nul
	c.Checkpoint.Meta = map[string]string{nul: nul}
	c.Checkpoint.Prompt, c.Checkpoint.Label = nul, nul
	c.Entries = []segno.Entry{{Kind: nul, ID: nul, Name: nul, Body: []byte(`"\u0000"`)}}
	c.Link = &segno.Link{Session: nul, Dir: nul, Note: nul}
	c.Workspace = &segno.WorkspaceState{Workspace: nul, Thread: nul, By: nul}
	c.Operation = &segno.Operation{ID: nul, Workspace: nul, Thread: nul, Args: nul}
	head, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if head, err = s.Commit(t.Context(), segno.Commit{ID: nul + "pin", Thread: nul, Expect: nul, Pin: &segno.Pin{Checkpoint: nul,
		Name: nul}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*c.Link, head.Link); diff != "" || head.Head != nul {
		t.Errorf("the head is %q, its link differs: %s", head.Head, diff)
	}
	for got, err := range s.Threads(t.Context(), segno.ThreadQuery{Session: nul, Workspace: nul}) {
		if diff := cmp.Diff(*c.Create, got); err != nil || diff != "" {
			t.Errorf("the thread differs: %v %s", err, diff)
		}
	}
	found := 0
	for got, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{Meta: map[string]string{nul: nul}, Pinned: true}) {
		if err != nil || got.Label != nul || got.Prompt != nul || got.ID != nul {
			t.Errorf("%+v, %v", got, err)
		}
		found++
	}
	line, err := s.Load(t.Context(), nul, segno.Window{Entries: true})
	if err != nil || found != 1 {
		t.Fatal(found, err)
	}
	if diff := cmp.Diff(c.Entries, line.Commits[0].Entries); diff != "" {
		t.Errorf("the entries differ: %s", diff)
	}
	l, err := s.Acquire(t.Context(), segno.Lease{Thread: nul, Owner: nul, Expires: time.Now().Add(time.Hour)})
	if err != nil || l.Owner != nul {
		t.Errorf("the lease: %v, %v", l, err)
	}
}

// TestLeasesUseTheServersClock verifies that stores without Options.Clock use the clock of the server.
func TestLeasesUseTheServersClock(t *testing.T) {
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

// TestCollectingBesideWriters makes writers name objects that were kept long ago while collections delete
// unused objects. Each commit must have all its objects, or be refused with the name of the missing one.
func TestCollectingBesideWriters(t *testing.T) {
	clock := storetest.NewClock()
	s := openAt(t, server.URL+"&synchronous_commit=off&pool_max_conns=6", Options{Clock: clock.Now}, func(*pgxpool.Config) {})
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
			done, err := s.Collect(t.Context(), segno.CollectPolicy{Trace: func(context.Context, segno.Objects, segno.Checkpoint,
				func(segno.Hash) bool) error {
				return nil
			}})
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

// commitOld keeps an object and commits a checkpoint that names it, and repeats both if a collection deleted
// the object between them.
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

// TestConflictingWriters makes many threads commit the same objects in different orders, and change one
// workspace. All commits must succeed.
func TestConflictingWriters(t *testing.T) {
	s := openAt(t, server.URL+"&pool_max_conns=8", Options{}, func(*pgxpool.Config) {})
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
				c := segno.Commit{ID: segno.CommitID(fmt.Sprint("writer ", k, " round ", i)), Thread: head.Thread, Parent: head.Head,
					Expect: head.Head,
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
