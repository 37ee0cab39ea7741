package agent

import (
	"context"
	"sync"

	"github.com/dalsegno/segno"
)

// registry is what an agent remembers of its runs in this process. Subagents share their
// agent's registry.
type registry struct {
	id string // of this agent, in the owners of its leases

	mu       sync.Mutex
	running  map[string]bool                 // owners of leases whose runs have not ended
	deferred map[segno.ThreadID]segno.Commit // results that the store failed to commit
	notBegun map[intentAt]bool               // calls that did not begin, because the commit of their intents failed
}

func newRegistry() *registry {
	return &registry{id: segno.NewID(), running: map[string]bool{}, deferred: map[segno.ThreadID]segno.Commit{}, notBegun: map[intentAt]bool{}}
}

func (g *registry) begin(owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[owner] = true
}

func (g *registry) end(owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, owner)
}

func (g *registry) isRunning(owner string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running[owner]
}

// intentAt identifies an intent: the commit that contains it, and its call.
type intentAt struct {
	commit segno.CommitID
	call   string
}

// isNotBegun reports whether this process knows that a call did not begin.
func (g *registry) isNotBegun(at intentAt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.notBegun[at]
}

func (g *registry) setBegun(at intentAt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.notBegun, at)
}

// deferResults remembers a failed commit if it contains results: the next run of the thread in
// this process commits it, so no person is asked about the calls. Of a commit with intents it
// remembers that the calls did not begin, because the store may have applied the commit.
func (g *registry) deferResults(c segno.Commit, err error) {
	switch segno.KindOf(err) {
	case segno.KindConflict, segno.KindFenced, segno.KindInvalid, segno.KindNotFound, segno.KindRefused:
		return // the store refused the commit and would refuse it again
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range c.Entries {
		switch e.Kind {
		case segno.EntryResult:
			g.deferred[c.Thread] = c
		case segno.EntryIntent:
			g.notBegun[intentAt{c.ID, e.ID}] = true
		}
	}
}

// replayDeferred commits the results that an earlier run of this process could not save. It
// drops them if the thread continued without them: the questions about the calls have other
// answers then.
func (r *run) replayDeferred(ctx context.Context) (err error) {
	g := r.registry
	g.mu.Lock()
	c, ok := g.deferred[r.thread]
	g.mu.Unlock()
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
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.deferred, r.thread)
	return nil
}
