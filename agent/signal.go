package agent

import (
	"bytes"
	"context"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// Signal sends a signal to a thread, and runs nothing. It is durable on return. It ends a wait for
// name, see [Await], or stays in the thread until a call waits for it; then [Agent.Run] without a
// prompt continues the thread. key identifies the signal: another Signal with the same key, name and
// value changes nothing, so a caller may retry after any error. The same key with another name or
// value is a [segno.KindConflict]. A signal belongs to the thread's line: an undo of the turn in which
// it arrived removes it.
func (a *Agent) Signal(ctx context.Context, thread, name, key string, value any) error {
	body, err := segno.Encode(value)
	if err != nil {
		return segno.NewError(segno.KindInvalid, "signal", name, err)
	}
	if name == "" || key == "" {
		return segno.Errorf(segno.KindInvalid, "signal", thread, "a signal needs a name and a key").
			WithHint("use a key that identifies the signal, such as the id of the payment")
	}
	if name, err = segno.AsStored(name); err != nil {
		return err
	}
	if !utf8.ValidString(key) {
		key = segno.DerivedID("signal", key) // the log would make two different keys equal
	}
	s := segno.Signal{Name: name, Key: key, Value: body}
	return retryConflicts(ctx, func() error { return a.signalOnce(ctx, thread, s) })
}

// signalOnce records a signal on the thread's present head. If it is the next one for a wait for its
// name, signalOnce also records the decision that it ends the oldest such wait.
func (a *Agent) signalOnce(ctx context.Context, thread string, s segno.Signal) error {
	r := a.newRun(Input{Thread: thread})
	if err := r.completeMove(ctx); err != nil {
		return err
	}
	if err := r.reload(ctx); err != nil {
		return err
	}
	for _, known := range r.state.Signals {
		if known.Key != s.Key {
			continue
		}
		if known.Name == s.Name && bytes.Equal(known.Value, s.Value) {
			return nil
		}
		return segno.Errorf(segno.KindConflict, "signal", s.Name, "the key %q was used for another signal", s.Key).WithHint("give each signal a different key")
	}
	s.Time = r.Now()
	// An earlier signal that no wait has received arrived during a run. The next run gives it to the oldest
	// wait, and this one to the wait after that.
	isNext := unusedSignal(r.state, s.Name) == nil
	r.draftRecord(s)
	for _, i := range r.state.Interrupts {
		if !isNext || i.Signal != s.Name {
			continue
		}
		moved, err := r.isMoved(ctx, segno.EntryInterrupt, i.ID)
		if err != nil {
			return err
		}
		if !moved { // otherwise the next run asks again, and finds the signal
			r.draftDecision((*signal)(&s).decide(i.ID, s.Time))
			break
		}
	}
	if r.draftErr != nil {
		return r.draftErr
	}
	_, err := r.commitWithRetry(ctx, r.newCommit(nil))
	return err
}

// signal is a [segno.Signal] that ends a wait.
type signal segno.Signal

// decide returns the decision that ends a wait with the signal.
func (s *signal) decide(interrupt string, now time.Time) segno.Decision {
	return segno.Decision{Interrupt: interrupt, Kind: segno.Respond, Text: string(s.Value), Signal: s.Key, Time: now}
}

// unusedSignal returns the oldest signal with a name that no wait has received, or nil.
func unusedSignal(state *segno.State, name string) *signal {
	for i := range state.Signals {
		if s := &state.Signals[i]; name != "" && s.Name == name && !s.Used {
			return (*signal)(s)
		}
	}
	return nil
}
