package agent

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
)

// Phase is the progress of a thread's newest turn.
type Phase string

// The phases.
const (
	// PhaseRunning: a run has the thread, in this process or in another.
	PhaseRunning Phase = "running"
	// PhaseWaiting: the turn waits for decisions, or a call waits; see [Status.Wake].
	PhaseWaiting Phase = "waiting"
	// PhaseBrokenOff: the turn has not ended and no run has the thread. [Agent.Stream]
	// without a prompt continues it.
	PhaseBrokenOff Phase = "broken-off"
	// PhaseDone: the turn has ended, or there was none.
	PhaseDone Phase = "done"
)

// Status is the state of a thread.
type Status struct {
	Phase Phase
	Head  segno.CommitID // the newest checkpoint of the line; Fork and Restore accept it
	Turn  int
	Loaded
	TodoList   []Todo
	Interrupts []segno.Interrupt // what the turn waits for: questions, and the waits of calls
	Wake       time.Time         // when the turn continues without an answer; zero if it does not. Other threads that it waits for do not count
	Outcome    Outcome           // of a turn that has ended; without Usage

	// Undo, Redo and Restore set these.
	Conflicts []segno.Conflict // files left unchanged, because they were changed after the turn
	Kept      []segno.Conflict // files left unchanged, because they are not saved: too large, or ignored
	Lost      bool             // a file of Kept is missing and cannot be restored
}

// Status returns the status of a thread. It acquires no lease and changes nothing. During a
// run, everything except the phase may be a step old.
func (a *Agent) Status(ctx context.Context, thread string) (Status, error) {
	r := a.newRun(Input{Thread: thread})
	running, err := r.isLeased(ctx)
	if err != nil {
		return Status{}, err
	}
	if err := r.reload(ctx); err != nil {
		return Status{}, err
	}
	if r.open && !running {
		// A run that began after the first look may have made the commits just read.
		if running, err = r.isLeased(ctx); err != nil {
			return Status{}, err
		}
	}
	return r.status(running), nil
}

// status returns the status of a loaded thread.
func (r *run) status(running bool) Status {
	s := Status{Phase: PhaseDone, Head: r.at, Turn: r.turn, Loaded: *r.loaded(), Interrupts: r.state.Interrupts, Wake: nextWake(r.state.Interrupts)}
	if _, err := r.values.Get("todos", &s.TodoList); err != nil {
		s.TodoList = nil // the tool that reads them reports the error
	}
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
	return s
}

// outcomeOf returns a turn's outcome from the commit that ended the turn.
func outcomeOf(end *segno.Node) Outcome {
	o := Outcome{Saved: end.ID}
	for _, e := range eventsOf(end, "") {
		if e.Kind == EventDone {
			o.Text, o.Output, o.Stop = e.Text, e.Output, e.Stop
		}
	}
	return o
}
