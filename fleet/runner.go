package fleet

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// Runner runs the turns of threads.
type Runner interface {
	// Run begins the turn of a prompt, or continues it, and returns when the turn ends or waits. It may be called again for
	// the same prompt after any outcome, by any worker; the prompt's key identifies the turn. If another run has the
	// thread, the error is [agent.ErrRunning]. When ctx ends, Run returns soon.
	Run(ctx context.Context, w Work) (Result, error)
}

// Work is one attempt at a prompt.
type Work struct {
	Thread  string
	Prompt  Prompt
	N       int64 // the number of the prompt
	Tenant  string
	Attempt int // from 1; it counts the attempts since the last one that made progress
	// HasWaited means that the last attempt ended with a turn that waits.
	HasWaited bool
}

// Result is the outcome of an attempt.
type Result struct {
	Phase agent.Phase // [agent.PhaseDone] or [agent.PhaseWaiting]
	Text  string      // the answer, or why the turn waits
	Wake  time.Time   // if the turn waits for a time

	isUndone bool // the turn is not on the thread's line any more
}

// AgentRunner returns the runner of a Go agent.
func (f *Fleet) AgentRunner(a *agent.Agent) Runner { return agentRunner{f, a} }

// agentRunner runs Go agents.
type agentRunner struct {
	fleet *Fleet
	agent *agent.Agent
}

// Run implements [Runner].
func (r agentRunner) Run(ctx context.Context, w Work) (Result, error) {
	// Without Begun, a turn that was undone while it waited would begin again.
	out, err := r.agent.Run(ctx, agent.Input{Thread: w.Thread, Prompt: w.Prompt.Text, Key: w.Prompt.Key, Begun: w.HasWaited, Actor: w.Prompt.Actor})
	if errors.Is(err, agent.ErrUndone) {
		return Result{isUndone: true}, nil
	}
	if err != nil {
		if segno.KindOf(err) != segno.KindRefused || len(out.Interrupts) == 0 {
			return Result{}, err
		}
		// A question of an earlier turn, such as a cancelled one, keeps this turn from its beginning. The turn does not wait for it: it
		// would count as undone when the question is answered.
		if has, errHas := r.fleet.hasTurn(ctx, w.Thread, w.Prompt.Key); errHas != nil || !has {
			return Result{}, cmp.Or(errHas, err)
		}
	}
	if len(out.Interrupts) == 0 {
		return Result{Phase: agent.PhaseDone, Text: cmp.Or(string(out.Output), out.Text)}, nil
	}
	result := Result{Phase: agent.PhaseWaiting, Wake: out.Wake}
	for _, i := range out.Interrupts {
		result.Text = cmp.Or(result.Text, i.Question)
	}
	return result, nil
}

// hasTurn reports whether the turn of a prompt is on the line of a thread.
func (f *Fleet) hasTurn(ctx context.Context, thread, key string) (bool, error) {
	head, err := f.store.Head(ctx, segno.ThreadID(thread))
	if err != nil || head.Head == "" {
		return false, err
	}
	id := segno.DerivedID("prompt", key)
	for n, err := range segno.Ancestors(ctx, f.store, head.Head, segno.Window{Last: 16, Entries: true}) {
		if err != nil {
			return false, err
		}
		for i := range n.Entries {
			if e := &n.Entries[i]; e.Kind == segno.EntryMessage && e.ID == id {
				return true, nil
			}
		}
	}
	return false, nil
}
