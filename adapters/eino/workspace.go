package segnoeino

import (
	"context"
	"os"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/timeline"
)

// beginFiles begins the turn of the files, if the run has any. Until it ends, no other process moves them. Changes
// that were made before do not belong to the run.
func (r *run) beginFiles(ctx context.Context, prompt string, isOpen bool) error {
	if r.timeline == nil {
		return nil
	}
	turn := r.turn
	if !isOpen {
		turn = r.head.Turn + 1
	}
	r.files = segno.TurnKey(segno.DerivedID("eino turn", string(r.thread), strconv.Itoa(turn)))
	pid := os.Getpid()
	return r.leased().BeginSteps(ctx, timeline.OpenTurn{Key: r.files, Thread: r.thread, Agent: agentName, Prompt: prompt,
		Process: timeline.Process{PID: pid, PIDStart: proc.Start(pid), Machine: proc.Machine()}})
}

// leased returns the timeline with the run's lease.
func (r *run) leased() *timeline.Timeline {
	if r.lease == nil {
		return r.timeline
	}
	return r.timeline.WithLease(r.lease.Held())
}

// commitTo returns the function that commits c. A checkpoint has the files.
func (r *run) commitTo(c *segno.Commit) func(context.Context, segno.Commit) (segno.Head, error) {
	if r.timeline == nil || c.Checkpoint == nil {
		return r.store.Commit
	}
	return func(ctx context.Context, c segno.Commit) (segno.Head, error) {
		return r.leased().CommitStep(ctx, c, r.files)
	}
}
