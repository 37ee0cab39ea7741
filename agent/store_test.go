package agent_test

import (
	"context"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// lessor is a store with the leases that give only one run a thread at a time.
type lessor interface {
	segno.Store
	segno.Leaser
}

// gate is a store that watches commits. before may refuse a commit, and after is called
// with one that is durable.
type gate struct {
	lessor
	before, after func(n int, c segno.Commit) error

	mu sync.Mutex
	n  int
}

func (g *gate) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	g.mu.Lock()
	g.n++
	n := g.n
	g.mu.Unlock()
	if g.before != nil {
		if err := g.before(n, c); err != nil {
			return segno.Head{}, err
		}
	}
	head, err := g.lessor.Commit(ctx, c)
	if err == nil && g.after != nil {
		err = g.after(n, c)
	}
	return head, err
}

// watched puts a gate in front of the rig's store.
func (r *rig) watched(before, after func(n int, c segno.Commit) error) *gate {
	g := &gate{lessor: r.store.(lessor), before: before, after: after}
	r.store = g
	r.with(func(c *agent.Config) {})
	return g
}

// errDisk is the error of a store whose disk is full.
var errDisk = segno.NewError(segno.KindIO, "commit", "", nil)
