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
	deferred sync.Map // by [segno.ThreadID]: a [segno.Commit] with results that the store failed to commit
	notBegun sync.Map // [intentAt]: calls that did not begin, because the commit of their intents failed
}

func newRegistry() *registry { return &registry{id: segno.NewID()} }

// intentAt identifies an intent: the commit that contains it, and its call.
type intentAt struct {
	commit segno.CommitID
	call   string
}

// isNotBegun reports whether this process knows that a call did not begin.
func (g *registry) isNotBegun(at intentAt) bool {
	_, ok := g.notBegun.Load(at)
	return ok
}

// deferResults remembers a failed commit if it contains results: the next run of the thread in
// this process commits it, so no person is asked about the calls. For a failed commit with intents,
// it remembers that the calls did not begin, because the store may have applied the commit. running is
// set for a commit while calls run: they have begun.
func (g *registry) deferResults(c segno.Commit, err error, running bool) {
	switch segno.KindOf(err) {
	case segno.KindConflict, segno.KindFenced, segno.KindInvalid, segno.KindNotFound, segno.KindRefused:
		return // the store refused the commit and would refuse it again
	}
	for _, e := range c.Entries {
		switch {
		case e.Kind == segno.EntryResult, isCallStep(&e):
			g.deferred.Store(c.Thread, c)
		case e.Kind == segno.EntryIntent && !running:
			g.notBegun.Store(intentAt{c.ID, e.ID}, true)
		}
	}
}

// replayDeferred commits the results that an earlier run of this process could not save. It
// drops them if the thread continued without them, because the questions about the calls then have
// other answers.
func (r *run) replayDeferred(ctx context.Context) (err error) {
	deferred, _ := r.registry.deferred.Load(r.thread)
	c, ok := deferred.(segno.Commit)
	if !ok {
		return nil
	}
	if r.head, err = r.headOf(ctx, r.thread); err != nil {
		return err
	}
	nodes, err := r.decisionsSince(ctx, r.head, c.Expect)
	if err != nil {
		return err
	}
	if nodes != nil {
		c.Parent, c.Expect, c.Epoch = r.head.Head, r.head.Head, r.epoch()
		head, err := r.commitAfterDecisions(ctx, &c)
		if err != nil && segno.KindOf(err) != segno.KindConflict {
			return err
		}
		if err == nil {
			r.head = head
		}
	}
	r.registry.deferred.Delete(r.thread)
	return nil
}
