package agent_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// TestSignalsBesideARun sends signals while runs of the thread commit. Each signal ends one wait.
func TestSignalsBesideARun(t *testing.T) {
	eachStore(t, func(r *rig) {
		const n = 8
		r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
			var all []int
			for range n {
				s, err := agent.Await(ctx, "tick")
				if err != nil {
					return "", err
				}
				var x int
				if err := s.Decode(&x); err != nil {
					return "", err
				}
				all = append(all, x)
				_, err = agent.Do(ctx, "note", func(context.Context) (int, error) { return x, nil })
				if err != nil {
					return "", err
				}
			}
			slices.Sort(all)
			return fmt.Sprint(all), nil
		})
		r.prompt("say hello")
		var senders sync.WaitGroup
		for i := range n {
			senders.Go(func() {
				for range 2 {
					if err := r.agent.Signal(r.ctx, thread, "tick", fmt.Sprint(i), i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		sent := make(chan struct{})
		go func() { senders.Wait(); close(sent) }()
		in := agent.Input{Prompt: callWork}
		for {
			out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: in.Prompt, Key: "go"})
			r.ok(err)
			if len(out.Interrupts) == 0 {
				break
			}
			select {
			case <-sent: // all signals are recorded: the next run finds them
			default:
				runtime.Gosched()
			}
		}
		<-sent
		r.answers("[0 1 2 3 4 5 6 7]")
	})
}

// TestSignalsArriveInOrder has two signals: the first one arrives before the wait is committed, and the
// second one before the run reads the first.
func TestSignalsArriveInOrder(t *testing.T) {
	r := newRig(t)
	r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
		if err := r.agent.Signal(ctx, thread, "tick", "first", 1); err != nil {
			return "", err
		}
		a, err := agent.Await(ctx, "tick")
		if err != nil {
			return "", err
		}
		b, err := agent.Await(ctx, "tick")
		return a.Text + ", " + b.Text, err
	})
	for e, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Prompt: callWork}) {
		r.ok(err)
		if e.Kind == agent.EventWaiting {
			r.ok(r.agent.Signal(r.ctx, thread, "tick", "second", 2))
		}
	}
	r.answers("1, 2")
}

// TestADecisionReplacesASignal ends the wait for a signal with a decision, which must be JSON like the
// value of a signal.
func TestADecisionReplacesASignal(t *testing.T) {
	r := newRig(t)
	r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
		s, err := agent.Await(ctx, "paid")
		return s.Text, err
	})
	i := r.waits(agent.Input{Prompt: callWork}, segno.ReasonSignal)
	d := segno.Decision{Interrupt: i.ID, Kind: segno.Respond, Text: "eighty"}
	r.wants(r.agent.Decide(r.ctx, thread, d), segno.KindInvalid, "JSON")
	d.Text = "80"
	r.ok(r.agent.Decide(r.ctx, thread, d))
	r.finish()
	r.answers("80")
}
