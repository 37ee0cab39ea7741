package agent_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestAnAnswerSurvivesAKill kills a process that acts on an approval, right before or
// right after any commit. The next run asks for no second approval of a call that
// did not begin. If a call began, the next run asks whether it happened.
func TestAnAnswerSurvivesAKill(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, prompt := range map[string]string{"itself": pay + "\nwrite a.txt: one", "a subagent": "task payer: " + pay + "\nwrite a.txt: one"} {
		for _, effect := range []agent.OnLost{agent.LostAsk, agent.LostRetry} {
			t.Run(name+", "+string(effect), func(t *testing.T) {
				t.Parallel()
				first := order{Prompt: prompt, Effect: effect, Ask: true}
				count := answered(t, first, order{Effect: effect, Ask: true})
				pick := 5
				if soak.IsWhole() {
					pick = 1
				}
				for m := 0; m < 2*count.commits; m += pick {
					second := order{Effect: effect, Ask: true, N: m/2 + 1, Commit: [...]string{"before", "after"}[m%2]}
					t.Run(fmt.Sprint(second.Commit, " commit ", second.N, " of ", count.commits), func(t *testing.T) {
						d := answered(t, first, second)
						if !d.killed {
							t.Fatal("it is still alive")
						}
						d.goesOn(t, second)
					})
				}
			})
		}
	}
}

// answeredRun is the state of the store after a process that acted on an approval.
type answeredRun struct {
	dir     string
	asked   segno.Interrupt
	commits int
	killed  bool
}

func answered(t *testing.T, first, second order) (d answeredRun) {
	t.Helper()
	d.dir = t.TempDir()
	r := after(t, d.dir, first)
	r.prompt(first.Prompt)
	d.asked = r.question()
	r.ok(r.store.Close())
	second.Decide = []segno.Decision{approve(d.asked)}
	d.commits, d.killed = child(t, "run", d.dir, second)
	return d
}

func (d *answeredRun) goesOn(t *testing.T, o order) {
	r := after(t, d.dir, o)
	if isOver(r) {
		r.paid(d.dir, "rent")
		return
	}
	all := r.run(agent.Input{})
	for range 2 { // give the approval again if it was not recorded, and then answer about the lost call
		if all[len(all)-1].Kind == agent.EventDone {
			break
		}
		q := r.question()
		switch {
		case q.ID == d.asked.ID:
			if len(r.ledger(d.dir)) > 0 {
				t.Fatal("the approval is wanted again, and the call was made")
			}
			all = r.run(decisions(approve(q)))
		case q.Reason == segno.ReasonUnknown && o.Effect == agent.LostAsk:
			all = r.run(decisions(r.looked(d.dir)))
		default:
			t.Fatalf("it asks %+v", q)
		}
	}
	r.one(all, agent.EventDone)
	r.paid(d.dir, "rent")
	r.recorded(approve(d.asked))
	r.paid(d.dir, "rent")
}

// TestAMoveThatWasBrokenOffAsksAnewAllTheSame has the store fail during a
// restore to a question.
func TestAMoveThatWasBrokenOffAsksAnewAllTheSame(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail)
		asked := r.heads(thread)[0].ID
		first := r.question()
		r.finish(approve(first))
		fails := 1 // the first commit that fails
		r.watched(func(n int, _ segno.Commit) error {
			if n >= fails {
				return errDisk
			}
			return nil
		}, nil)
		if s, err := r.agent.Restore(r.ctx, thread, asked); !errors.Is(err, errDisk) || s.Head != "" {
			r.Fatalf("a restore that moves nothing: %v; the status has the head %q", err, s.Head)
		}
		fails = 3
		if s, err := r.agent.Restore(r.ctx, thread, asked); !errors.Is(err, errDisk) || s.Head != asked {
			r.Fatalf("restore: %v; the status has the head %q, want %q", err, s.Head, asked)
		}
		r.restart()
		if _, err := r.try(decisions(approve(first))); err == nil {
			r.Error("the old answer counts")
		}
		r.sent("bob")
		r.run(agent.Input{})
		second := r.question()
		if second.ID == first.ID {
			r.Error("it is asked under the old id")
		}
		r.finish(approve(second))
		r.sent("bob", "bob")
	})
}

// TestAForkThatWasBrokenOffAsksAnewAllTheSame has the store fail during a
// fork at a question.
func TestAForkThatWasBrokenOffAsksAnewAllTheSame(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped().prompt(askMail + " ; task helper: " + askMail)
		open := r.open(thread)
		at := r.heads(thread)[0].ID
		r.watched(func(n int, _ segno.Commit) error {
			if n > 1 {
				return errDisk
			}
			return nil
		}, nil)
		if s, err := r.agent.Fork(r.ctx, at, "fork"); !errors.Is(err, errDisk) || s.Head == "" {
			r.Fatalf("fork: %v; the status has the head %q", err, s.Head)
		}
		r.restart()
		for _, q := range open {
			r.replaced("fork", q)
		}
		r.run(agent.Input{Thread: "fork"})
		there := r.open("fork")
		if len(there) != 2 {
			r.Fatalf("the fork asks %+v", there)
		}
		r.run(agent.Input{Thread: "fork", Decide: decisions(approve(there[0]), approve(there[1])).Decide})
		r.sent("bob", "bob")
		r.finish(approve(open[0]), approve(open[1]))
		r.sent("bob", "bob", "bob", "bob")
	})
}
