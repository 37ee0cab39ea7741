package agent

import (
	"context"
	"sync"

	"github.com/dalsegno/segno"
)

// registry is what an agent knows of the runs that it made in this process. Its subagents
// share it.
type registry struct {
	id string // this agent's, in the owners of its leases

	mu      sync.Mutex
	running map[string]bool                 // owners of leases whose runs have not ended
	pending map[segno.ThreadID]segno.Commit // results of calls that the store did not take
	unbegun map[intentAt]bool               // calls that were not begun, because the commit of their intents failed
}

func newRegistry() *registry {
	return &registry{id: segno.NewID(), running: map[string]bool{}, pending: map[segno.ThreadID]segno.Commit{}, unbegun: map[intentAt]bool{}}
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

// intentAt names an intent: the commit that holds it, and its call.
type intentAt struct {
	commit segno.CommitID
	call   string
}

// isUnbegun reports whether this process knows that a call was not begun.
func (g *registry) isUnbegun(at intentAt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unbegun[at]
}

func (g *registry) setBegun(at intentAt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.unbegun, at)
}

// keepPending remembers a commit that failed, if it has results of calls: the next run of this process commits it, and no
// person is asked what came of the calls. Of a commit with intents it remembers that none
// of the calls was begun: the commit may have been applied all the same.
func (r *run) keepPending(c segno.Commit, err error) {
	switch segno.KindOf(err) {
	case segno.KindConflict, segno.KindFenced, segno.KindInvalid, segno.KindNotFound, segno.KindRefused:
		return // the store has answered, and would answer the same again
	}
	g := r.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range c.Entries {
		switch e.Kind {
		case segno.EntryResult:
			g.pending[c.Thread] = c
		case segno.EntryIntent:
			g.unbegun[intentAt{c.ID, e.ID}] = true
		}
	}
}

// replayPending commits the results that an earlier run of this process could not save. If
// the thread went on without them they are dropped: its line has another answer to the
// question what came of the calls.
func (r *run) replayPending(ctx context.Context) error {
	g := r.registry
	g.mu.Lock()
	c, ok := g.pending[r.thread]
	g.mu.Unlock()
	if !ok {
		return nil
	}
	var err error
	if r.head, err = r.headOf(ctx, r.thread); err != nil {
		return err
	}
	switch nodes, err := r.decisionsSince(ctx, r.head, c.Expect); {
	case err != nil:
		return err
	case nodes != nil:
		c.Parent, c.Expect, c.Epoch = r.head.Head, r.head.Head, r.epoch()
		head, err := r.commitOnLine(ctx, &c)
		if err != nil && segno.KindOf(err) != segno.KindConflict {
			return err
		}
		if err == nil {
			r.head = head
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pending, r.thread)
	return nil
}
