package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// runningCalls are the calls of a step that have not returned.
type runningCalls struct {
	done chan struct{} // closed once all have returned

	mu    sync.Mutex
	calls map[string]Call
}

func (c *runningCalls) add(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call.ID] = call
}

func (c *runningCalls) remove(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, call.ID)
}

// all returns the calls, ordered by id.
func (c *runningCalls) all() (all []Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.calls)) {
		all = append(all, c.calls[id])
	}
	return all
}

// nameOverdue names the calls that have not returned graceTime after the end of the run's context.
// The run waits for them, because a call must not be made again while it still runs. Without the
// names the caller could not tell why the run does not end.
func (r *run) nameOverdue(ctx context.Context, running *runningCalls) {
	select {
	case <-running.done:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(graceTime)
	defer grace.Stop()
	select {
	case <-running.done:
		return
	case <-grace.C:
	}
	for _, c := range running.all() {
		r.overdue = c.Name
		r.emit(Event{Kind: EventToolOverdue, Call: &c,
			Text: fmt.Sprintf("the tool %q has not returned %s after its context ended; the run waits for it", c.Name, graceTime)})
	}
}
