package segno

import "context"

// ReadPhase works out the phase of the line that ends at a commit. Of a line whose turn is
// over it reads the newest commits only.
func ReadPhase(ctx context.Context, s Store, at CommitID) (Phase, error) {
	const few = 8
	line, err := s.Load(ctx, at, Window{Last: few})
	if err != nil {
		return PhaseUnknown, err
	}
	newest := newestOfTurn(line)
	if newest == nil && len(line.Commits) < few || newest != nil && newest.Kind == CheckpointTurn && !newest.Interrupted {
		return PhaseDone, nil
	}
	if line, err = s.Load(ctx, at, Window{Entries: true}); err != nil {
		return PhaseUnknown, err
	}
	state, err := Fold(line)
	if err != nil {
		return PhaseUnknown, err
	}
	switch newest = newestOfTurn(line); {
	case newest == nil, newest.Kind == CheckpointTurn && !newest.Interrupted:
		return PhaseDone, nil
	case len(state.Interrupts) > 0:
		return PhaseWaiting, nil
	case newest.Kind == CheckpointStep && newest.Agent == "":
		return PhaseDone, nil
	}
	return PhaseOpen, nil
}

// newestOfTurn returns the newest checkpoint of a line that a turn made, or nil.
func newestOfTurn(line *Line) *Checkpoint {
	for i := len(line.Commits) - 1; i >= 0; i-- {
		if c := line.Commits[i].Checkpoint; c != nil && (c.Kind == CheckpointTurn || c.Kind == CheckpointStep) {
			return c
		}
	}
	return nil
}
