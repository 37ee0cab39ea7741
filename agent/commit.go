package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// commit makes what is drafted durable and then tells of it. It goes through even if the
// run was cancelled meanwhile, because what has happened must be recorded. Decisions that
// other processes recorded since are taken over; any other commit on the thread is a
// conflict.
func (r *run) commit(ctx context.Context, cp *segno.Checkpoint) error {
	changed, settled := r.values.changes()
	for _, e := range changed {
		if err := r.draft(e); err != nil {
			return err
		}
	}
	if len(r.entries) == 0 && cp == nil {
		return nil
	}
	if cp != nil {
		cp.Turn, cp.Time, cp.Agent = r.turn, r.Now(), r.Name
		cp.Members = r.members.get()
		if cp.Kind == segno.CheckpointTurn {
			cp.Shell, cp.Key = r.shells[r.turn], r.entered
		}
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Parent: r.head.Head, Expect: r.head.Head, Epoch: r.epoch(),
		Entries: r.entries, Checkpoint: cp}
	head, err := r.commitOnLine(ctx, &c)
	if err != nil {
		r.keepPending(c, err)
		return fmt.Errorf("save step: %w", err)
	}
	settled()
	r.head, r.entries, r.wrote, r.deciding, r.answers = head, nil, true, nil, false
	r.state.At = c.ID
	if cp != nil {
		r.at = c.ID
	}
	if cp != nil && cp.Step != 0 {
		r.state.Step = cp.Step
	}
	n := &segno.Node{ID: c.ID, Thread: r.thread, Parent: c.Parent, Seq: head.Seq, Checkpoint: cp, Entries: c.Entries}
	r.place(n)
	r.forked = false // it has done something
	r.tellAll(eventsOf(n, r.sub))
	return nil
}

// commitOnLine commits c on the head of the thread's line. If another process recorded
// decisions there since the run looked, c follows them.
func (r *run) commitOnLine(ctx context.Context, c *segno.Commit) (segno.Head, error) {
	for {
		head, err := r.commitWithRetry(ctx, *c)
		var lost *segno.ConflictError
		if err == nil || !errors.As(err, &lost) || lost.Actual.Head == c.Expect {
			return head, err
		}
		graceful, cancel := grace(ctx)
		joinErr := r.takeDecisions(graceful, err)
		cancel()
		if joinErr != nil {
			return head, joinErr
		}
		c.Parent, c.Expect = r.head.Head, r.head.Head
	}
}

// takeDecisions moves the run to the thread's head if nothing but decisions was committed
// since the run looked; otherwise it returns conflict. A decision on a question that the
// drafted decisions answer, too, wins: it is in the log.
func (r *run) takeDecisions(ctx context.Context, conflict error) error {
	head, err := r.headOf(ctx, r.thread)
	if err != nil {
		return err
	}
	nodes, err := r.decisionsSince(ctx, head, r.head.Head)
	if err != nil {
		return err
	}
	if nodes == nil {
		return conflict
	}
	for i := range nodes {
		for j := range nodes[i].Entries {
			e := &nodes[i].Entries[j]
			if r.deciding[e.ID] {
				return segno.NewError(segno.KindConflict, "decide", e.ID, ErrAnswered).WithHint("run the thread without this decision to go on")
			}
			if r.state != nil {
				if err := r.state.Apply(e); err != nil {
					return err
				}
			}
		}
		if r.state != nil {
			r.place(&nodes[i])
			r.tellAll(eventsOf(&nodes[i], r.sub))
		}
	}
	r.head = head
	return nil
}

// decisionsSince returns the commits between a commit and the head, oldest first, if all of
// them only record decisions; otherwise nil.
func (r *run) decisionsSince(ctx context.Context, head segno.Head, since segno.CommitID) ([]segno.Node, error) {
	for last := 4; ; last *= 4 {
		var line *segno.Line
		err := r.retry(ctx, func() (err error) {
			line, err = r.Store.Load(ctx, head.Head, segno.Window{Last: last, Entries: true})
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := len(line.Commits) - 1; i >= 0; i-- {
			n := &line.Commits[i]
			if n.ID == since {
				return line.Commits[i+1:], nil
			}
			if n.Thread != r.thread || n.Checkpoint != nil || !onlyDecisions(n.Entries) {
				return nil, nil
			}
		}
		if len(line.Commits) < last {
			return nil, nil
		}
	}
}

func onlyDecisions(entries []segno.Entry) bool {
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(e segno.Entry) bool { return e.Kind != segno.EntryDecision })
}

// commitWithRetry commits c, with the files if it ends a turn. It calls the store again
// after a transient failure. The id identifies the commit, so the store does not apply it
// twice if its acknowledgement was lost.
func (r *run) commitWithRetry(ctx context.Context, c segno.Commit) (head segno.Head, err error) {
	ctx, cancel := grace(ctx)
	defer cancel()
	commit := r.Store.Commit
	if r.Timeline != nil && c.Checkpoint != nil && (c.Checkpoint.Kind == segno.CheckpointTurn || r.resting || c.Create != nil) {
		commit = func(ctx context.Context, c segno.Commit) (segno.Head, error) {
			return r.recorder().CommitStep(ctx, c, r.entered)
		}
	}
	tries := 0
	err = r.retry(ctx, func() (err error) {
		tries++
		head, err = commit(ctx, c)
		if err == nil || tries == 1 || segno.KindOf(err) != segno.KindConflict {
			return err
		}
		// An earlier try may have been applied although its answer was lost.
		if applied, ok := r.applied(ctx, c.ID); ok {
			head, err = applied, nil
		}
		return err
	})
	return head, err
}

// applied reports whether the thread's head is the commit id, or a decision with nothing
// but decisions between it and that commit. It returns the head that the commit made.
func (r *run) applied(ctx context.Context, id segno.CommitID) (segno.Head, bool) {
	head, err := r.Store.Head(ctx, r.thread)
	if err != nil {
		return head, false
	}
	if nodes, err := r.decisionsSince(ctx, head, id); err != nil || nodes == nil {
		return head, false
	}
	line, err := r.Store.Load(ctx, id, segno.Window{Last: 1})
	if err != nil {
		return head, false
	}
	head.Head, head.Tip, head.Seq = id, id, line.Commits[0].Seq
	return head, true
}

// retry calls op again while a store fails in passing, for a bounded number of times and
// with growing waits. op must be safe to repeat.
func (a *Agent) retry(ctx context.Context, op func() error) error {
	const busyTries = 5 // a busy store has waited already
	return a.retryWhile(ctx, op, func(kind segno.Kind, n int) bool {
		return kind == segno.KindIO || kind == segno.KindBusy && n < busyTries
	})
}

// retryIO is retry for operations on leases. It does not retry KindBusy: for a lease that
// kind means that another run holds it.
func (a *Agent) retryIO(ctx context.Context, op func() error) error {
	return a.retryWhile(ctx, op, func(kind segno.Kind, _ int) bool { return kind == segno.KindIO })
}

func (a *Agent) retryWhile(ctx context.Context, op func() error, isTransient func(kind segno.Kind, n int) bool) error {
	p := a.StoreRetry
	for n := 1; ; n++ {
		err := op()
		if err == nil || !isTransient(segno.KindOf(err), n) || n >= p.Attempts || ctx.Err() != nil {
			return err
		}
		t := time.NewTimer(p.wait(n, 0))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// headOf reads a thread's head.
func (a *Agent) headOf(ctx context.Context, thread segno.ThreadID) (head segno.Head, err error) {
	err = a.retry(ctx, func() (err error) {
		head, err = a.Store.Head(ctx, thread)
		return err
	})
	return head, err
}
