// Package ledgertest has the table of test cases for the admission of commits. internal/store/ledger
// implements the rules; a store that applies a commit in another way, such as in one statement of
// SQL, must give the same answers. storetest.Test runs the table on every store.
package ledgertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// Store is the subset of [segno.Store] that the cases need. If the store is also a [segno.Leaser],
// the cases about the epoch run, too.
type Store interface {
	Commit(ctx context.Context, c segno.Commit) (segno.Head, error)
	Head(ctx context.Context, thread segno.ThreadID) (segno.Head, error)
	Delete(ctx context.Context, thread segno.ThreadID) error
}

// testCase is one commit, and its expected result in the store that [prepare] fills.
type testCase struct {
	name   string
	before []segno.Commit // applied first; each must succeed
	commit segno.Commit
	want   error      // nil, or the kind of the error
	actual string     // with KindConflict: the head that the error carries, "" for an error without one
	head   segno.Head // with want == nil: the result of Commit; Link is compared by its session
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func entries(text string) []segno.Entry {
	return []segno.Entry{{Kind: segno.EntryNote, Turn: 1, Time: start, Name: text}}
}

func turn(n int) *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n, Time: start}
}

func create(id segno.ThreadID) *segno.Thread { return &segno.Thread{ID: id, Created: start} }

func link(session segno.SessionID, detached bool) *segno.Link {
	return &segno.Link{Agent: "a", Session: session, Start: start, Detached: detached}
}

// prepare makes three threads: t with the checkpoints t1 and t2; gone, which is deleted; and
// leased, whose epoch is 1 if the store has leases. It returns that epoch.
func prepare(t *testing.T, s Store) (epoch uint64) {
	t.Helper()
	for _, c := range []segno.Commit{
		{ID: "t1", Thread: "t", Create: create("t"), Checkpoint: turn(1), Link: link("s1", false)},
		{ID: "t2", Thread: "t", Parent: "t1", Expect: "t1", Checkpoint: turn(2), Entries: entries("two")},
		{ID: "gone1", Thread: "gone", Create: create("gone"), Entries: entries("gone")},
		{ID: "leased1", Thread: "leased", Create: create("leased"), Entries: entries("leased")},
	} {
		if _, err := s.Commit(t.Context(), c); err != nil {
			t.Fatalf("commit %s: %v", c.ID, err)
		}
	}
	if err := s.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if leaser, ok := s.(segno.Leaser); ok {
		l, err := leaser.Acquire(t.Context(), segno.Lease{Thread: "leased", Owner: "owner", Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return l.Epoch
	}
	return 0
}

// Run runs every case on a new store. operations is false for a store that does not keep
// operations.
func Run(t *testing.T, open func(t *testing.T) Store, operations bool) {
	for _, tc := range cases() {
		if tc.commit.Operation != nil && !operations {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			s := open(t)
			prepare(t, s)
			for _, c := range tc.before {
				if _, err := s.Commit(t.Context(), c); err != nil {
					t.Fatalf("commit %s: %v", c.ID, err)
				}
			}
			tc.check(t, s)
		})
	}
	t.Run("a lower epoch is fenced before the head is compared", func(t *testing.T) {
		s := open(t)
		epoch := prepare(t, s)
		if epoch == 0 {
			return // no leases
		}
		for _, expect := range []segno.CommitID{"leased1", "wrong"} {
			testCase{commit: segno.Commit{ID: "x", Thread: "leased", Parent: "leased1", Expect: expect, Entries: entries("x")},
				want: segno.KindFenced}.check(t, s)
		}
		c := segno.Commit{ID: "x", Thread: "leased", Parent: "leased1", Expect: "leased1", Epoch: epoch, Entries: entries("x")}
		testCase{commit: c, head: segno.Head{Head: "x", Tip: "x", Seq: 2, Epoch: epoch}}.check(t, s)
		c.Epoch = 0 // the epoch is not part of a commit's identity
		testCase{commit: c, head: segno.Head{Head: "x", Tip: "x", Seq: 2, Epoch: epoch}}.check(t, s)
	})
}

func (tc testCase) check(t *testing.T, s Store) {
	t.Helper()
	before, _ := s.Head(t.Context(), tc.commit.Thread)
	head, err := s.Commit(t.Context(), tc.commit)
	if tc.want != nil {
		if !errors.Is(err, tc.want) {
			t.Fatalf("error %v, want %v", err, tc.want)
		}
		conflict := new(segno.ConflictError)
		if errors.As(err, &conflict); string(conflict.Actual.Head) != tc.actual {
			t.Errorf("the conflict carries head %q, want %q", conflict.Actual.Head, tc.actual)
		}
		if after, _ := s.Head(t.Context(), tc.commit.Thread); after != before {
			t.Errorf("a refused commit moved the head from %+v to %+v", before, after)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := tc.head
	want.Thread = tc.commit.Thread
	if head.Link.Session != want.Link.Session {
		t.Errorf("the head session is %q, want %q", head.Link.Session, want.Link.Session)
	}
	if head.Link = want.Link; head != want {
		t.Errorf("got head  %+v\nwant head %+v", head, want)
	}
}
