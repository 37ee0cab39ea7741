package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

func approvedOnce(r *rig) {
	r.asking().prompt(askMail)
	r.sent()
	all := r.finish(approve(r.question()))
	r.sent("bob")
	r.answers("sent to bob")
	if d := r.one(all, agent.EventDecision).Decision; d.Kind != segno.Approve || d.Time.IsZero() {
		r.Errorf("the decision is told as %+v", d)
	}
	if len(r.open(thread)) > 0 {
		r.Error("it still waits")
	}
}

func editedOnce(r *rig) {
	r.asking().prompt(askMail)
	q := r.question()
	if string(q.Args) != `{"to":"bob"}` || q.ArgsHash != segno.HashOf(q.Args) || q.Tool != "send_email" {
		r.Errorf("the question is about %s %s", q.Tool, q.Args)
	}
	r.finish(edit(q, `{"to":"eve"}`))
	r.sent("eve")
	if res := r.results(thread)[0]; !contains(res.Text, "sent to eve", `{"to":"eve"}`) {
		r.Errorf("the model, which asked for bob, was told %q", res.Text)
	}
}

func rejectedNever(r *rig) {
	r.asking().prompt(askMail)
	d := reject(r.question(), "bob is on leave")
	d.Actor = "ann"
	received := r.one(r.finish(d), agent.EventDecision).Decision
	r.sent()
	res := r.results(thread)[0]
	if !res.Error || !contains(res.Text, "rejected", "ann", "bob is on leave") {
		r.Errorf("the model was told %+v", res)
	}
	if received.Kind != segno.Reject || received.Actor != "ann" || received.Text != "bob is on leave" {
		r.Errorf("the log has %+v", received)
	}
}

func respondedNever(r *rig) {
	r.asking().prompt(askMail)
	r.finish(respond(r.question(), "I sent it myself"))
	r.sent()
	if res := r.results(thread)[0]; res.Error || res.Text != "I sent it myself" {
		r.Errorf("the model was told %+v", res)
	}
}

func nobodyToAsk(r *rig) {
	all := r.asking().prompt(askMail)
	if last := all[len(all)-1]; last.Kind != agent.EventInterrupted || len(all.of(agent.EventDone)) > 0 {
		r.Errorf("the run ends with %v", all.kinds())
	}
	q := r.one(all, agent.EventApproval).Interrupt
	if q.ID != r.question().ID {
		r.Error("the question told is not the one that waits")
	}
	o, err := r.agent.Run(r.ctx, agent.Input{Thread: "other", Prompt: askMail})
	r.ok(err)
	if o.Text != "" || len(o.Interrupts) != 1 {
		r.Errorf("Do says %+v", o)
	}
	// A run that continues without an answer waits again, under the same id.
	all = r.run(agent.Input{})
	if all[len(all)-1].Kind != agent.EventInterrupted || r.question().ID != q.ID {
		r.Errorf("a run without a decision: %v", all.kinds())
	}
	r.sent()
}

func somebodyToAsk(r *rig) {
	asked := 0
	r.asking().with(func(c *agent.Config) {
		c.Answer = func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error) {
			asked++
			if stored := r.question(); stored.ID != open[0].ID {
				r.Errorf("%s is asked, the store has %s", open[0].ID, stored.ID)
			}
			r.sent()
			return []segno.Decision{approve(open[0])}, nil
		}
	})
	r.one(r.prompt(askMail), agent.EventDone)
	r.sent("bob")
	if asked != 1 {
		r.Errorf("asked %d times", asked)
	}
}

func severalQuestions(r *rig) {
	r.asking().prompt(`call send_email {"to":"a"} ; call send_email {"to":"b"} ; call send_email {"to":"c"}`)
	open := r.open(thread)
	if len(open) != 3 || open[0].ID == open[1].ID || open[1].ID == open[2].ID {
		r.Fatalf("waiting: %+v", open)
	}
	about := map[string]segno.Interrupt{}
	for _, q := range open {
		about[string(q.Args)] = q
	}
	r.run(agent.Input{Decide: []segno.Decision{approve(about[`{"to":"c"}`])}})
	r.sent("c")
	r.restart()
	if n := len(r.open(thread)); n != 2 {
		r.Fatalf("%d wait after one of three was answered", n)
	}
	r.finish(reject(about[`{"to":"b"}`], "no"), edit(about[`{"to":"a"}`], `{"to":"A"}`))
	r.sent("A", "c")
	r.answers("sent to c", "rejected", "(run with other arguments")
}

func othersGoOn(r *rig) {
	r.asking().prompt(askMail + " ; write a.txt: hello")
	r.answers("wrote")
	r.finish(approve(r.question()))
	r.sent("bob")
	if n := len(r.results(thread)); n != 2 {
		r.Errorf("%d results, want 2", n)
	}
}

func approvalAfterRestart(r *rig) {
	r.asking().prompt(askMail)
	asked := r.question()
	r.restart()
	if q := r.question(); q.ID != asked.ID || string(q.Args) != string(asked.Args) || !q.Asked.Equal(asked.Asked) {
		r.Errorf("before the restart %+v, after it %+v", asked, q)
	}
	r.finish(approve(asked))
	r.restart()
	r.sent("bob")
	r.recorded(approve(asked))
	r.sent("bob")
}

func promptOverQuestion(r *rig) {
	r.asking().prompt(askMail)
	q := r.question()
	err := r.refused(agent.Input{Prompt: "say something else"}, segno.KindRefused, "decision")
	if segno.HintOf(err) == "" {
		r.Error("no hint")
	}
	if r.question().ID != q.ID || len(r.messages(thread, "")) != 2 {
		r.Error("the refused prompt changed the thread")
	}
	r.finish(approve(q))
	r.sent("bob")
}

func TestTheQuestionIsDurableBeforeAnyoneIsAsked(t *testing.T) {
	r, asked := newRig(t).asking(), false
	var durable sync.Map // of questions
	r.watched(nil, func(_ int, c segno.Commit) error {
		for _, e := range c.Entries {
			if e.Kind == segno.EntryInterrupt {
				durable.Store(e.ID, true)
			}
		}
		return nil
	})
	for e, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Prompt: askMail}) {
		r.ok(err)
		if e.Kind != agent.EventApproval {
			continue
		}
		if _, ok := durable.Load(e.Interrupt.ID); !ok || asked {
			t.Error("it is asked before the store has it, or twice")
		}
		asked = true
	}
	if !asked {
		t.Error("nobody is asked")
	}
}

func TestAnApproverLooksAtTheArguments(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) {
		c.Approve = func(_ context.Context, call agent.Call) *agent.Approval {
			var m mail
			if json.Unmarshal(call.Args, &m) == nil && m.To == "boss" {
				return &agent.Approval{Question: "write to the boss?", Allowed: []segno.DecisionKind{segno.Approve, segno.Reject}}
			}
			return nil
		}
	})
	r.prompt(`call send_email {"to":"bob"} ; call send_email {"to":"boss"}`)
	r.sent("bob")
	q := r.question()
	if q.Question != "write to the boss?" || !slices.Equal(q.Allowed, []segno.DecisionKind{segno.Approve, segno.Reject}) {
		t.Errorf("the question is %+v", q)
	}
	r.finish(approve(q))
	r.sent("bob", "boss")
}

func TestARunThatWaitsSaysAllThatItWaitsFor(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped()
		o, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: askMail + " ; task helper: " + askMail + ` ; call send_email {"to":"eve"}`})
		r.ok(err)
		if len(o.Interrupts) != 3 {
			r.Fatalf("it waits for %+v", o.Interrupts)
		}
		r.restart()
		o, err = r.agent.Run(r.ctx, agent.Input{Thread: thread, Decide: []segno.Decision{approve(o.Interrupts[1])}})
		r.ok(err)
		if len(o.Interrupts) != 2 {
			r.Fatalf("then it waits for %+v", o.Interrupts)
		}
		again, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
		r.ok(err)
		if len(again.Interrupts) != 2 || again.Interrupts[0].ID != o.Interrupts[0].ID || again.Interrupts[1].ID != o.Interrupts[1].ID {
			r.Errorf("asked again it waits for %+v", again.Interrupts)
		}
		all := r.run(agent.Input{})
		if last := all[len(all)-1]; last.Kind != agent.EventInterrupted || len(last.Interrupts) != 2 {
			r.Errorf("the run ends with %+v", last)
		}
		r.finish(approve(o.Interrupts[0]), reject(o.Interrupts[1], ""))
		if n := len(r.mails.all()); n != 2 {
			r.Errorf("%d mails, want 2", n)
		}
	})
}
