package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// jobs are rows that a store writes in the transaction of each commit, except for those that create a thread.
type jobs struct {
	*testing.T
	s    *Store
	fail func() error // is called in the transaction, after the row was written
}

func newJobs(t *testing.T, o Options, adjust func(*pgxpool.Config)) *jobs {
	j := &jobs{T: t, fail: func() error { return nil }}
	o.InCommit = func(c *segno.Commit) func(context.Context, pgx.Tx, segno.Head) error {
		if c.Create != nil {
			return nil
		}
		id := string(c.ID)
		return func(ctx context.Context, tx pgx.Tx, head segno.Head) error {
			if string(head.Head) != id {
				return fmt.Errorf("the commit %s has the head %s", id, head.Head)
			}
			if _, err := tx.Exec(ctx, j.s.sql(`INSERT INTO {}jobs (id) VALUES ($1)`), id); err != nil {
				return err
			}
			return j.fail()
		}
	}
	j.s = openAt(t, server.URL+"&synchronous_commit=off&pool_max_conns=4", o, adjust)
	execute(t, j.s, `CREATE TABLE {}jobs (id text NOT NULL)`)
	return j
}

// count returns how many jobs a commit has.
func (j *jobs) count(id segno.CommitID) (n int) {
	j.Helper()
	if err := j.s.pool.QueryRow(j.Context(), j.s.sql(`SELECT count(*) FROM {}jobs WHERE id = $1`), string(id)).Scan(&n); err != nil {
		j.Fatal(err)
	}
	return n
}

// has reports whether the store has a commit.
func (j *jobs) has(id segno.CommitID) bool {
	j.Helper()
	_, err := j.s.Load(j.Context(), id, segno.Window{Last: 1})
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		j.Fatal(err)
	}
	return err == nil
}

func (j *jobs) base() segno.Head {
	j.Helper()
	head, err := j.s.Commit(j.Context(), base("thread"))
	if err != nil {
		j.Fatal(err)
	}
	return head
}

func next(head segno.Head, id string) segno.Commit {
	return segno.Commit{ID: segno.CommitID(id), Thread: "thread", Parent: head.Head, Expect: head.Head,
		Entries: []segno.Entry{{Kind: segno.EntryMessage, Body: []byte(`"hello"`)}}}
}

// TestACommitAndItsJobSurviveLostConnections loses the connection at each request and at each answer of a commit with a job. The
// commit is applied once, and has its job exactly if it was applied.
func TestACommitAndItsJobSurviveLostConnections(t *testing.T) {
	for _, patience := range []time.Duration{time.Nanosecond, time.Minute} {
		w := new(wire)
		j := newJobs(t, Options{Patience: patience}, w.adjust)
		head := j.base()
		for name, fault := range map[string]*atomic.Bool{"answer": &w.lose, "request": &w.cut} {
			points := 0
			for isLost := true; isLost; points++ {
				c := next(head, fmt.Sprint(name, points))
				w.after.Store(int64(points))
				fault.Store(true)
				got, err := j.s.Commit(t.Context(), c)
				isLost = !fault.Swap(false)
				if applied := j.has(c.ID); applied != (j.count(c.ID) == 1) || applied != (err == nil) {
					t.Errorf("patience %v, %s %d: %v; applied: %v, with %d jobs", patience, name, points, err, applied, j.count(c.ID))
				} else if applied {
					head = got
				} else if patience > time.Second || segno.KindOf(err) != segno.KindIO {
					t.Errorf("patience %v, %s %d: %v", patience, name, points, err)
				}
			}
			// At least BEGIN, the commit, the job and COMMIT.
			if points < 5 {
				t.Errorf("the connection was lost at %d points", points-1)
			}
		}
	}
}

// TestAFailedJobIsNoCommit verifies that a commit is not applied if the function in its transaction fails.
func TestAFailedJobIsNoCommit(t *testing.T) {
	j := newJobs(t, Options{Patience: time.Minute}, func(*pgxpool.Config) {})
	head := j.base()
	broken := errors.New("the queue is full")
	j.fail = func() error { return segno.NewError(segno.KindRefused, "insert job", "", broken) }
	if _, err := j.s.Commit(t.Context(), next(head, "refused")); !errors.Is(err, broken) || segno.KindOf(err) != segno.KindRefused {
		t.Errorf("the commit returned %v", err)
	}
	if j.has("refused") || j.count("refused") != 0 {
		t.Error("the commit was applied")
	}
	tries := 0
	j.fail = func() error {
		if tries++; tries < 3 {
			return errRetry
		}
		return nil
	}
	if _, err := j.s.Commit(t.Context(), next(head, "late")); err != nil || !j.has("late") || j.count("late") != 1 || tries != 3 {
		t.Errorf("after %d tries: %v, %d jobs", tries, err, j.count("late"))
	}
}

// TestOnlyTheFirstWriterHasAJob lets several writers expect one head.
func TestOnlyTheFirstWriterHasAJob(t *testing.T) {
	j := newJobs(t, Options{}, func(*pgxpool.Config) {})
	head := j.base()
	const writers = 8
	var won atomic.Int64
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			c := next(head, fmt.Sprint("writer", i))
			_, err := j.s.Commit(t.Context(), c)
			if err == nil {
				won.Add(1)
			} else if segno.KindOf(err) != segno.KindConflict {
				t.Error(err)
			}
			if want := map[bool]int{true: 1}[err == nil]; j.count(c.ID) != want {
				t.Errorf("%v, and %d jobs", err, j.count(c.ID))
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d writers succeeded", won.Load())
	}
}

// TestATransactionIsRepeated loses each answer to a transaction of InTx, which runs until it is committed.
func TestATransactionIsRepeated(t *testing.T) {
	w := new(wire)
	j := newJobs(t, Options{Patience: time.Minute}, w.adjust)
	for n, isLost := 0, true; isLost; n++ {
		w.after.Store(int64(n))
		w.lose.Store(true)
		err := j.s.InTx(t.Context(), "count", "", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, j.s.sql(`INSERT INTO {}jobs (id) SELECT $1 WHERE NOT EXISTS (SELECT FROM {}jobs WHERE id = $1)`), fmt.Sprint(n))
			return err
		})
		isLost = !w.lose.Swap(false)
		if got := j.count(segno.CommitID(fmt.Sprint(n))); err != nil || got != 1 {
			t.Errorf("answer %d: %v, %d rows", n, err, got)
		}
	}
}
