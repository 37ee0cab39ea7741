package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// TestACallThatAnotherProcessBegan loses the acknowledgment of a call's intent, so this process knows that the call did not
// begin. Another process continues the turn, makes the call, and ends before the result is saved. A failure of this process's
// attempt does not tell whether that call happened, so a person is asked.
func TestACallThatAnotherProcessBegan(t *testing.T) {
	eachStore(t, func(r *rig) {
		booked := 0
		r.waiting(agent.LostRetry, func(context.Context, *agent.Invocation) (string, error) {
			if booked++; booked > 1 {
				return "", errors.New("it is booked")
			}
			return "booked", nil
		})
		in := agent.Input{Prompt: callWork, Key: "k"}
		end := r.failingFrom(true, func(c segno.Commit) bool { return has(c, segno.EntryIntent) })
		r.fails(in)
		end()
		if booked != 0 {
			t.Fatal("the call began")
		}
		one := r.agent
		endOther := r.failingFrom(false, func(c segno.Commit) bool { return has(c, segno.EntryResult) })
		r.fails(in) // the other process
		endOther()
		if booked != 1 {
			t.Fatal("the other process did not make the call")
		}
		r.agent = one
		asked := r.one(r.run(in), agent.EventInterrupted)
		if len(asked.Interrupts) != 1 || asked.Interrupts[0].Reason != segno.ReasonUnknown {
			t.Errorf("it asks %+v", asked.Interrupts)
		}
	})
}
