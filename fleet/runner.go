package fleet

import (
	"context"
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
}

// Result is the outcome of an attempt.
type Result struct {
	Phase agent.Phase // [agent.PhaseDone] or [agent.PhaseWaiting]
	Text  string      // the answer, or why the turn waits
	Wake  time.Time   // if the turn waits for a time
}

// agentRunner runs Go agents.
type agentRunner struct{ agent *agent.Agent }

// Run implements [Runner].
func (r agentRunner) Run(ctx context.Context, w Work) (Result, error) {
	out, err := r.agent.Run(ctx, agent.Input{Thread: w.Thread, Prompt: w.Prompt.Text, Key: w.Prompt.Key, Actor: w.Prompt.Actor})
	if err != nil && (segno.KindOf(err) != segno.KindRefused || len(out.Interrupts) == 0) {
		return Result{}, err
	}
	if len(out.Interrupts) == 0 {
		return Result{Phase: agent.PhaseDone, Text: out.Text}, nil
	}
	result := Result{Phase: agent.PhaseWaiting}
	for _, i := range out.Interrupts {
		if result.Text == "" {
			result.Text = i.Question
		}
	}
	return result, nil
}
