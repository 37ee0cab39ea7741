package agent

import (
	"context"

	"github.com/dalsegno/segno"
)

// Phase says what a thread is doing.
type Phase string

// The phases.
const (
	// PhaseRunning: a run has the thread, in this process or in another.
	PhaseRunning Phase = "running"
	// PhaseWaiting: the turn waits for decisions.
	PhaseWaiting Phase = "waiting"
	// PhaseBrokenOff: the turn is not over and no run has the thread. [Agent.Stream] without
	// a prompt continues it.
	PhaseBrokenOff Phase = "broken-off"
	// PhaseDone: the turn is over, or there was none yet.
	PhaseDone Phase = "done"
)

// Status says where a thread is and what it is doing.
type Status struct {
	Phase Phase
	Head  segno.CommitID // the newest checkpoint of the line
	Turn  int
	Loaded
	Interrupts []segno.Interrupt // what waits for a decision
	Outcome    Outcome           // of a turn that is over; it has no Usage
}

// Status returns the status of a thread. It takes no lease and changes nothing. While a run
// is at work, everything but the phase may be a step old.
func (a *Agent) Status(ctx context.Context, thread string) (Status, error) {
	running, err := a.Running(ctx, thread)
	if err != nil {
		return Status{}, err
	}
	r := &run{Agent: a, thread: segno.ThreadID(thread)}
	if err := r.reload(ctx); err != nil {
		return Status{}, err
	}
	if r.open && !running {
		// A run that began after the first Running may have made the commits just read.
		if running, err = a.Running(ctx, thread); err != nil {
			return Status{}, err
		}
	}
	s := Status{Phase: PhaseDone, Head: r.at, Turn: r.turn, Loaded: *r.loaded(), Interrupts: r.state.Interrupts}
	switch {
	case running:
		s.Phase = PhaseRunning
	case r.open && len(s.Interrupts) > 0:
		s.Phase = PhaseWaiting
	case r.open:
		s.Phase = PhaseBrokenOff
	case r.ends[r.turn] != nil:
		s.Outcome = outcomeOf(r.ends[r.turn])
	}
	return s, nil
}

// outcomeOf is what a turn came to, from the commit that ended it.
func outcomeOf(end *segno.Node) Outcome {
	o := Outcome{Saved: end.ID}
	for _, e := range eventsOf(end, "") {
		if e.Kind == EventDone {
			o.Text, o.Output, o.Stop = e.Text, e.Output, e.Stop
		}
	}
	return o
}
