package segno

import "context"

// Phase is the progress of the newest turn of a thread's line according to its commits. Only
// the lease shows whether a run is at work; see [Leaser].
type Phase uint8

// The phases. Stores keep the numbers.
const (
	PhaseUnknown Phase = iota // the newest commits do not tell; see [ReadPhase]
	PhaseDone                 // the turn is over, or there was none; of a saver's thread: nothing waits
	PhaseOpen                 // the turn is not over
	PhaseWaiting              // the turn is not over and waits for decisions
)

// NextPhase returns the phase of a thread after c, which is applied to a thread in a phase.
// Stores keep it with the thread's head, so that threads are found by it. It is
// [PhaseUnknown] where the commits before c would have to be read.
func NextPhase(before Phase, c *Commit) Phase {
	switch {
	case c.Create != nil && c.Parent == "":
		before = PhaseDone
	case c.Move != nil && c.Move.Head == c.Expect || c.Move == nil && !c.IsNode():
		return before
	case c.Move != nil && c.Move.Head != Self:
		return PhaseUnknown
	case c.Parent != c.Expect:
		before = PhaseUnknown // the line is another
	}
	return before.after(c.Checkpoint, c.Entries)
}

// after returns the phase of a line to which a node is added.
func (p Phase) after(cp *Checkpoint, entries []Entry) Phase {
	asks, answers := false, false
	for i := range entries {
		switch entries[i].Kind {
		case EntryInterrupt:
			asks = true
		case EntryDecision, EntryResult:
			answers = true
		}
	}
	ofTurn := cp != nil && (cp.Kind == CheckpointTurn || cp.Kind == CheckpointStep)
	switch {
	case ofTurn && cp.Kind == CheckpointTurn && !cp.Interrupted:
		return PhaseDone
	case asks && ofTurn && !answers:
		return PhaseWaiting
	case asks, answers && (p == PhaseWaiting || p == PhaseUnknown):
		return PhaseUnknown
	case !ofTurn, p == PhaseWaiting, p == PhaseUnknown:
		return p
	case cp.Kind == CheckpointStep && cp.Agent == "":
		return PhaseDone // a saver's: each save is whole
	}
	return PhaseOpen
}

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
