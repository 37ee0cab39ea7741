package agent

import (
	"context"
	"sync"

	"github.com/dalsegno/segno"
)

// registry is the state that an agent keeps about its runs in this process. Subagents share their
// agent's registry.
type registry struct {
	id       string   // of this agent, in the owners of its leases
	running  sync.Map // owners of the leases of runs that have not ended
	deferred sync.Map // by [segno.ThreadID]: commits with results that the store failed to commit, oldest first
	notBegun sync.Map // by [intentAt]: [threadEpoch] of calls that did not begin, because the commit of their intents failed
	stopped  sync.Map // by [segno.ThreadID]: *stoppedCalls
}

// stoppedCalls are the calls of a thread that stopped at a step, because the store failed there. Their later steps did not
// begin, so a call with such a step did not lose its result.
type stoppedCalls struct {
	mu    sync.Mutex
	epoch uint64                   // of the newest run of this process; a run of another process may have continued the calls
	steps map[string]stoppedAtStep // by the key of the call
}

// stoppedAtStep is the step at which a call stopped.
type stoppedAtStep struct {
	n      int
	isWait bool
}

// stop remembers that a call stopped at a step, if the run with this epoch is the thread's newest one of this process.
func (g *registry) stop(thread segno.ThreadID, epoch uint64, key string, at stoppedAtStep) {
	v, _ := g.stopped.LoadOrStore(thread, &stoppedCalls{epoch: epoch, steps: map[string]stoppedAtStep{}})
	calls := v.(*stoppedCalls)
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if calls.epoch == epoch {
		calls.steps[key] = at
	}
}

// begin forgets where a call stopped, because the call begins again.
func (g *registry) begin(thread segno.ThreadID, key string) {
	v, ok := g.stopped.Load(thread)
	if !ok {
		return
	}
	calls := v.(*stoppedCalls)
	calls.mu.Lock()
	defer calls.mu.Unlock()
	delete(calls.steps, key)
}

// stoppedAt returns the step at which a call stopped, or zero.
func (g *registry) stoppedAt(thread segno.ThreadID, key string) stoppedAtStep {
	v, ok := g.stopped.Load(thread)
	if !ok {
		return stoppedAtStep{}
	}
	calls := v.(*stoppedCalls)
	calls.mu.Lock()
	defer calls.mu.Unlock()
	return calls.steps[key]
}

// keepCalls forgets which calls of a thread did not begin or stopped, unless the run that got the lease with this epoch
// follows a run of this process: a run of another process may have continued them. Each run raises the epoch by one.
func (g *registry) keepCalls(thread segno.ThreadID, epoch uint64) {
	g.keepNotBegun(thread, epoch)
	g.keepStopped(thread, epoch)
}

func (g *registry) keepNotBegun(thread segno.ThreadID, epoch uint64) {
	g.notBegun.Range(func(at, newest any) bool {
		switch was := newest.(threadEpoch); {
		case was.thread != thread:
		case was.epoch+1 == epoch:
			g.notBegun.Store(at, threadEpoch{thread, epoch})
		default:
			g.notBegun.Delete(at)
		}
		return true
	})
}

func (g *registry) keepStopped(thread segno.ThreadID, epoch uint64) {
	v, ok := g.stopped.Load(thread)
	if !ok {
		return
	}
	calls := v.(*stoppedCalls)
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if calls.epoch++; calls.epoch != epoch {
		g.stopped.Delete(thread)
	}
}

func newRegistry() *registry { return &registry{id: segno.NewID()} }

// intentAt identifies an intent: the commit that contains it, and its call.
type intentAt struct {
	commit segno.CommitID
	call   string
}

// threadEpoch is the epoch of the newest run of this process on a thread.
type threadEpoch struct {
	thread segno.ThreadID
	epoch  uint64
}

// isNotBegun reports whether this process knows that a call did not begin.
func (g *registry) isNotBegun(at intentAt) bool {
	_, ok := g.notBegun.Load(at)
	return ok
}

// deferResults remembers failed commits, each on top of the one before, if they contain results: the next run of the thread
// in this process commits them, so no person is asked about the calls. If the last one has intents, it remembers that the
// calls did not begin, because the store may have applied the commit. running is set for a commit while calls run: they
// have begun.
func (g *registry) deferResults(commits []segno.Commit, err error, running bool) {
	if isRefused(err) {
		return
	}
	hasResults := false
	for i, c := range commits {
		for _, e := range c.Entries {
			hasResults = hasResults || e.Kind == segno.EntryResult || isCallStep(&e)
			if e.Kind == segno.EntryIntent && !running && i == len(commits)-1 {
				g.notBegun.Store(intentAt{c.ID, e.ID}, threadEpoch{c.Thread, c.Epoch})
			}
		}
	}
	if hasResults {
		g.deferred.Store(commits[0].Thread, commits)
	}
}

// isRefused reports whether the store refused a commit and would refuse it again.
func isRefused(err error) bool {
	switch segno.KindOf(err) {
	case segno.KindConflict, segno.KindFenced, segno.KindInvalid, segno.KindNotFound, segno.KindRefused:
		return true
	}
	return false
}

// replayDeferred commits the results that an earlier run of this process could not save. It
// drops them if the thread continued without them, because the questions about the calls then have
// other answers.
func (r *run) replayDeferred(ctx context.Context) (err error) {
	deferred, _ := r.registry.deferred.Load(r.thread)
	commits, _ := deferred.([]segno.Commit)
	for i, c := range commits {
		if r.head, err = r.headOf(ctx, r.thread); err != nil {
			return err
		}
		applied, err := r.decisionsSince(ctx, r.head, c.ID)
		if err != nil {
			return err
		}
		if applied != nil {
			continue // its acknowledgment was lost
		}
		nodes, err := r.decisionsSince(ctx, r.head, c.Expect)
		if err != nil {
			return err
		}
		if nodes == nil {
			break
		}
		c.Parent, c.Expect, c.Epoch = r.head.Head, r.head.Head, r.epoch()
		head, err := r.commitAfterDecisions(ctx, &c)
		if segno.KindOf(err) == segno.KindConflict && err != nil {
			break
		}
		if err != nil {
			return err
		}
		r.head = head
		// If the next one fails, the next replay must not look for this one, which is then no longer at the end of the thread.
		r.registry.deferred.Store(r.thread, commits[i+1:])
	}
	r.registry.deferred.Delete(r.thread)
	return nil
}
