package phase

import (
	"context"

	"github.com/dalsegno/segno"
)

// Read returns the phase of the line that ends at a commit. If the turn is over, it reads only the
// newest commits.
func Read(ctx context.Context, s segno.Store, at segno.CommitID) (segno.Phase, error) {
	const few = 8
	line, err := s.Load(ctx, at, segno.Window{Last: few})
	if err != nil {
		return segno.PhaseUnknown, err
	}
	newest := newestOfTurn(line)
	if newest == nil && len(line.Commits) < few || newest != nil && newest.Kind == segno.CheckpointTurn && !newest.Interrupted {
		return segno.PhaseDone, nil
	}
	if line, err = s.Load(ctx, at, segno.Window{Entries: true}); err != nil {
		return segno.PhaseUnknown, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return segno.PhaseUnknown, err
	}
	switch newest = newestOfTurn(line); {
	case newest == nil, newest.Kind == segno.CheckpointTurn && !newest.Interrupted:
		return segno.PhaseDone, nil
	case len(state.Interrupts) > 0:
		return segno.PhaseWaiting, nil
	case newest.Kind == segno.CheckpointStep && newest.Agent == "":
		return segno.PhaseDone, nil
	}
	return segno.PhaseOpen, nil
}

// newestOfTurn returns the newest checkpoint of a line that a turn made, or nil.
func newestOfTurn(line *segno.Line) *segno.Checkpoint {
	for i := len(line.Commits) - 1; i >= 0; i-- {
		if c := line.Commits[i].Checkpoint; c != nil && (c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep) {
			return c
		}
	}
	return nil
}
