package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// newCommit returns a commit of the drafted entries on the thread's head.
func (r *run) newCommit(cp *segno.Checkpoint) segno.Commit {
	return segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Parent: r.head.Head, Expect: r.head.Head, Epoch: r.epoch(),
		Entries: r.entries, Checkpoint: cp, Durability: r.durability()}
}

// durability returns that of the drafted entries. An intent must be on disk before its call runs, a
// step of a call before the call continues, and a signal or a decision before its sender does.
func (r *run) durability() segno.Durability {
	if slices.ContainsFunc(r.entries, func(e segno.Entry) bool {
		return e.Kind == segno.EntryIntent || e.Kind == segno.EntrySignal || e.Kind == segno.EntryDecision || isCallStep(&e)
	}) {
		return segno.Synced
	}
	return r.Durability
}

// isCallStep reports whether an entry is a step of a call that has no result yet.
func isCallStep(e *segno.Entry) bool {
	switch e.Kind {
	case segno.EntryState:
		return strings.HasPrefix(e.Name, ".steps/") && e.Body != nil
	case segno.EntryInterrupt:
		var i struct{ Wait int }
		return json.Unmarshal(e.Body, &i) == nil && i.Wait > 0
	}
	return false
}

// epoch returns the epoch of the run's lease.
func (r *run) epoch() uint64 {
	if r.lease != nil {
		return r.lease.current().Epoch
	}
	return r.head.Epoch
}

// commit makes the drafted entries and the changed values durable and then emits their events.
// It completes even if the run was cancelled, because it records calls that have run. If other
// processes recorded decisions meanwhile, the run adopts them; any other commit on the thread
// is a conflict.
func (r *run) commit(ctx context.Context, cp *segno.Checkpoint) error {
	changed, saved := r.values.changes()
	return r.commitWith(ctx, cp, changed, saved)
}

// commitDuringCalls commits the drafts of calls that run. It leaves out the values that these calls
// changed: they become durable with the results.
func (r *run) commitDuringCalls(ctx context.Context) error {
	changed, saved := r.uncommitted, r.savedValues
	r.uncommitted, r.savedValues = nil, func() {}
	return r.commitWith(ctx, nil, changed, saved)
}

// commitWith commits the drafted entries and the entries of changed values.
func (r *run) commitWith(ctx context.Context, cp *segno.Checkpoint, changed []segno.Entry, saved func()) error {
	for _, e := range changed {
		r.draft(e)
	}
	if r.draftErr != nil || len(r.entries) == 0 && cp == nil {
		return r.draftErr
	}
	if cp != nil {
		cp.Turn, cp.Time, cp.Agent = r.turn, r.Now(), r.Name
		cp.Members = maps.Clone(r.members)
		if cp.Kind == segno.CheckpointTurn {
			cp.Shell, cp.Key = r.shells[r.turn], r.fileTurn
		}
	}
	unsavedErr := r.commitUnsaved(ctx)
	c := r.newCommit(cp)
	head, err := segno.Head{}, unsavedErr
	if err == nil {
		head, err = r.commitAfterDecisions(ctx, &c)
	} else {
		c.Parent = r.unsavedSteps[len(r.unsavedSteps)-1].ID
		c.Expect = c.Parent
	}
	if err != nil {
		isRunning := r.relay != nil
		r.registry.deferResults(append(slices.Clip(r.unsavedSteps), c), err, isRunning)
		if isRunning && !isRefused(err) {
			saved()
			r.unsavedSteps, r.entries = append(r.unsavedSteps, c), nil
		}
		return fmt.Errorf("save step: %w", err)
	}
	saved()
	r.drafts, r.forked = drafts{committed: true}, false
	r.addHead(&c, head)
	return nil
}

// commitUnsaved tries the commits again that failed while calls ran. The store may have applied them.
func (r *run) commitUnsaved(ctx context.Context) error {
	for len(r.unsavedSteps) > 0 {
		c := r.unsavedSteps[0]
		head, isApplied := r.appliedHead(ctx, c.ID)
		if !isApplied {
			c.Parent, c.Expect, c.Epoch = r.head.Head, r.head.Head, r.epoch()
			var err error
			if head, err = r.commitAfterDecisions(ctx, &c); err != nil {
				return err
			}
		}
		if r.unsavedSteps = r.unsavedSteps[1:]; len(r.unsavedSteps) == 0 {
			r.registry.deferred.Delete(r.thread)
		}
		r.committed = true
		r.addHead(&c, head)
	}
	return nil
}

// addHead makes a commit the run's head.
func (r *run) addHead(c *segno.Commit, head segno.Head) {
	r.head, r.state.At = head, c.ID
	if cp := c.Checkpoint; cp != nil {
		r.at = c.ID
		if cp.Step != 0 {
			r.state.Step = cp.Step
		}
	}
	n := &segno.Node{ID: c.ID, Thread: r.thread, Parent: c.Parent, Seq: head.Seq, Checkpoint: c.Checkpoint, Entries: c.Entries}
	r.addCommit(n)
	r.emitCommit(n)
}

func isHeadConflict(err error) bool {
	var conflict *segno.ConflictError
	return errors.As(err, &conflict)
}

// commitAfterDecisions commits c on the thread's head, after any decisions that other
// processes recorded there.
func (r *run) commitAfterDecisions(ctx context.Context, c *segno.Commit) (segno.Head, error) {
	for {
		head, err := r.commitWithRetry(ctx, *c)
		var conflict *segno.ConflictError
		if err == nil || !errors.As(err, &conflict) || conflict.Actual.Head == c.Expect {
			return head, err
		}
		graceCtx, cancel := withGrace(ctx)
		adoptErr := r.adoptDecisions(graceCtx, err)
		cancel()
		if adoptErr != nil {
			return head, adoptErr
		}
		c.Parent, c.Expect = r.head.Head, r.head.Head
	}
}

// adoptDecisions moves the run to the thread's head if only decisions were committed since the
// run read it; otherwise it returns conflict. It returns [segno.ErrAnswered] if one of these
// decisions and a drafted one answer the same question.
func (r *run) adoptDecisions(ctx context.Context, conflict error) error {
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
				return segno.NewError(segno.KindConflict, "decide", e.ID, segno.ErrAnswered).
					WithHint("run the thread without this decision to continue")
			}
			if r.state == nil {
				continue // results are replayed before the thread is loaded
			}
			if err := r.state.Apply(e); err != nil {
				return err
			}
		}
		if r.state != nil {
			r.addCommit(&nodes[i])
			r.emitCommit(&nodes[i])
		}
	}
	r.head = head
	return nil
}

// decisionsSince returns the commits between a commit and the head, oldest first, if all of
// them only record decisions; otherwise nil.
func (r *run) decisionsSince(ctx context.Context, head segno.Head, since segno.CommitID) ([]segno.Node, error) {
	for last := 4; ; last *= 4 {
		line, err := r.loadLine(ctx, head.Head, segno.Window{Last: last, Entries: true})
		if err != nil {
			return nil, err
		}
		for i := len(line.Commits) - 1; i >= 0; i-- {
			n := &line.Commits[i]
			if n.ID == since {
				return line.Commits[i+1:], nil
			}
			if n.Thread != r.thread || n.Checkpoint != nil || !isOnlyDecisions(n.Entries) {
				return nil, nil
			}
		}
		if len(line.Commits) < last {
			return nil, nil
		}
	}
}

// isOnlyDecisions reports whether entries are decisions and signals, which any process may record
// during a run.
func isOnlyDecisions(entries []segno.Entry) bool {
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(e segno.Entry) bool { return e.Kind != segno.EntryDecision && e.Kind != segno.EntrySignal })
}

// commitWithRetry commits c, with the files if it ends a turn, and retries after transient
// failures. The id identifies the commit, so the store does not apply it twice if its
// acknowledgement was lost.
func (r *run) commitWithRetry(ctx context.Context, c segno.Commit) (segno.Head, error) {
	ctx, cancel := withGrace(ctx)
	defer cancel()
	commit := r.Store.Commit
	if r.Timeline != nil && c.Checkpoint != nil && (c.Checkpoint.Kind == segno.CheckpointTurn || r.suspends || c.Create != nil || r.FilesAt != "") {
		c.Durability = segno.Synced
		commit = func(ctx context.Context, c segno.Commit) (segno.Head, error) {
			return r.leased(r.Timeline).CommitStep(ctx, c, r.fileTurn)
		}
	}
	tries := 0
	return retry(ctx, r.Agent, busyTries, func() (segno.Head, error) {
		tries++
		head, err := commit(ctx, c)
		if tries > 1 && segno.KindOf(err) == segno.KindConflict {
			// The store may have applied an earlier try although its answer was lost.
			if applied, ok := r.appliedHead(ctx, c.ID); ok {
				return applied, nil
			}
		}
		return head, err
	})
}

// appliedHead returns the head that the commit id made. ok is false unless that commit is the
// thread's head or only decisions follow it.
func (r *run) appliedHead(ctx context.Context, id segno.CommitID) (segno.Head, bool) {
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

// busyTries limits the tries of an operation while the store is busy: the store has already
// waited each time. Operations on leases pass 1, because there KindBusy means that another run
// holds the lease.
const busyTries = 5

// retry repeats an operation on the store after transient failures, a bounded number of times
// and with growing waits.
func retry[T any](ctx context.Context, a *Agent, busyTries int, op func() (T, error)) (v T, err error) {
	for n := 1; ; n++ {
		v, err = op()
		kind := segno.KindOf(err)
		isTransient := kind == segno.KindIO || kind == segno.KindBusy && n < busyTries
		if err == nil || !isTransient || n >= a.StoreRetry.Attempts || sleep(ctx, a.StoreRetry.backoff(n, 0)) != nil {
			return v, err
		}
	}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// graceTime is how long a cancelled run may take to record its results.
const graceTime = 5 * time.Second

// withGrace returns a context that ends graceTime after ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(graceTime, cancel)
		context.AfterFunc(longer, func() { t.Stop() })
	})
	return longer, func() { stop(); cancel() }
}
