package agent_test

import (
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
)

// TestReaskRecordsAnswerableQuestions moves a thread, without the agent, to a question that
// was answered. Reask asks the question again under another id, and only that id can be answered.
func TestReaskRecordsAnswerableQuestions(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking()
		r.run(agent.Input{Prompt: askMail})
		asked := r.question()
		at := r.heads(thread)[0].ID
		r.finish(approve(asked))
		if _, err := r.agent.Saver().Restore(r.ctx, saver.ThreadKey{Thread: thread}, at); err != nil {
			r.Fatal(err)
		}
		where, err := r.agent.Reask(r.ctx, thread)
		r.ok(err)
		if len(where.Interrupts) != 1 || where.Interrupts[0].ID == asked.ID {
			r.Fatalf("it waits for %+v", where.Interrupts)
		}
		r.refused(agent.Input{Decide: []segno.Decision{approve(asked)}}, segno.KindConflict)
		r.finish(approve(where.Interrupts[0]))
		r.sent("bob", "bob")
	})
}

// TestReaskAsksAboutLostCalls kills a run in a call. Reask asks once what happened to the call,
// and the question can be answered.
func TestReaskAsksAboutLostCalls(t *testing.T) {
	o := order{Prompt: pay, Effect: agent.LostAsk, Tool: "after", N: 1}
	dir := killed(t, o)
	r := after(t, dir, o)
	where, err := r.agent.Reask(r.ctx, thread)
	r.ok(err)
	if len(where.Interrupts) != 1 || where.Interrupts[0].Reason != segno.ReasonUnknown {
		r.Fatalf("it waits for %+v", where.Interrupts)
	}
	again, err := r.agent.Reask(r.ctx, thread)
	r.ok(err)
	if len(again.Interrupts) != 1 || again.Interrupts[0].ID != where.Interrupts[0].ID {
		r.Fatalf("asked again it waits for %+v", again.Interrupts)
	}
	r.finish(respond(where.Interrupts[0], "paid, I see it"))
	r.paid(dir, "rent")
}
