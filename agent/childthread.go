package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// completeChild fills in the missing fields of a prompt to another thread. Thread and key depend
// only on the call and the number of its wait.
func (r *run) completeChild(w *segno.Interrupt) error {
	p := *w.Child
	id := segno.DerivedID("child", w.CallKey, w.Call, strconv.Itoa(w.Wait))
	if p.Thread == "" {
		p.Thread = segno.ThreadID(id)
	}
	if p.Key == "" {
		p.Key = id
	}
	w.Child = &p
	if err := segno.CheckID("prompt thread", string(p.Thread)); err != nil {
		return err
	}
	switch {
	case p.Prompt == "":
		return segno.Errorf(segno.KindInvalid, "prompt thread", string(p.Thread), "the prompt is empty")
	case p.Thread == r.thread:
		return segno.Errorf(segno.KindInvalid, "prompt thread", string(p.Thread), "a thread cannot wait for itself")
	case r.Agents != nil && r.Agents[p.Agent] == nil:
		return segno.Errorf(segno.KindInvalid, "prompt thread", string(p.Thread), "unknown agent %q", p.Agent).WithHint("add it to Config.Agents")
	}
	return nil
}

// childResult is the result of a run of another thread.
type childResult struct {
	out Outcome
	err error
}

// waitingKey is the key of a context's value: the threads with runs that wait for this run.
type waitingKey struct{}

// runChildren runs the threads whose answers the calls wait for, if [Config.Agents] has their
// agents, and drafts the decisions. It reports whether any wait has ended.
func (r *run) runChildren(ctx context.Context) (ended bool, err error) {
	if r.Agents == nil || r.parent != nil {
		return false, nil
	}
	open := slices.DeleteFunc(slices.Clone(r.state.Interrupts), func(i segno.Interrupt) bool { return i.Child == nil })
	results := make([]childResult, len(open))
	waiting, _ := ctx.Value(waitingKey{}).([]segno.ThreadID)
	waiting = append(slices.Clip(waiting), r.thread)
	childCtx := context.WithValue(ctx, waitingKey{}, waiting)
	var running sync.WaitGroup
	for n, i := range open {
		a := r.Agents[i.Child.Agent]
		if a == nil {
			return false, segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "unknown agent %q of the thread %s", i.Child.Agent, i.Child.Thread).
				WithHint("add it to Config.Agents")
		}
		if slices.Contains(waiting, i.Child.Thread) {
			results[n].err = segno.Errorf(segno.KindInvalid, "prompt thread", string(i.Child.Thread), "it waits for the thread %s", r.thread)
			continue
		}
		running.Go(func() {
			results[n].out, results[n].err = a.Run(childCtx, Input{Thread: string(i.Child.Thread), Prompt: i.Child.Prompt, Key: i.Child.Key, Actor: r.in.Actor})
		})
	}
	running.Wait()
	for n, i := range open {
		d, err := r.childDecision(&i, &results[n])
		if err != nil {
			return false, fmt.Errorf("thread %s: %w", i.Child.Thread, err)
		}
		if d != nil {
			r.draftDecision(*d)
			r.fromAnswer, ended = true, true
		}
	}
	return ended, nil
}

// childDecision returns the decision with the answer of another thread, or nil if its turn waits. It
// returns the errors after which the turn can continue.
func (r *run) childDecision(i *segno.Interrupt, x *childResult) (*segno.Decision, error) {
	d := &segno.Decision{Interrupt: i.ID, Kind: segno.Respond, Text: x.out.Text, Actor: i.Child.Agent, Time: r.Now()}
	if x.out.Output != nil {
		d.Text = string(x.out.Output)
	}
	isRaced := errors.Is(x.err, ErrRunning) || isHeadConflict(x.err) // another program changed the thread
	recurs := isFinal(x.err) || !isRaced && (segno.KindOf(x.err) == segno.KindConflict || segno.KindOf(x.err) == segno.KindInvalid)
	switch {
	case x.err != nil && recurs:
		d.Kind, d.Text = segno.Reject, x.err.Error()
	case x.err != nil:
		return nil, x.err
	case len(x.out.Interrupts) > 0:
		r.childWake = earliest(r.childWake, x.out.Wake)
		return nil, nil
	}
	return d, nil
}

// earliest returns the earlier of two times, and ignores a zero time.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
