package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

func TestATurnThatIsOverReturnsItsOutcome(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.prompt("say one")
		r.prompt("say two")
		r.restart()
		for range 2 {
			out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
			r.ok(err)
			if out.Text != "two" || out.Saved != r.heads(thread)[0].ID || out.Usage != (agent.Usage{}) {
				r.Errorf("the outcome is %+v", out)
			}
		}
		if n := len(r.messages(thread, "")); n != 4 {
			r.Errorf("%d messages, want 4", n)
		}
		_, err := r.agent.Undo(r.ctx, thread, 2)
		r.ok(err)
		if err := r.refused(agent.Input{}, segno.KindInvalid); !errors.Is(err, agent.ErrTurnOver) {
			r.Errorf("without a turn it fails with %v", err)
		}
	})
}

func TestAPromptWithAKeyIsOneTurn(t *testing.T) {
	eachStore(t, func(r *rig) {
		in := agent.Input{Prompt: askMail + "\nsay sent", Key: "request-1"}
		r.asking().run(in)
		q := r.question()
		r.one(r.run(in), agent.EventInterrupted)
		if r.question().ID != q.ID {
			r.Error("the same prompt asks another question")
		}
		r.finish(approve(q))
		first := len(r.messages(thread, ""))
		r.prompt("say later")
		r.restart()
		if e := r.one(r.run(in), agent.EventDone); !contains(e.Text, "sent") || e.Turn != 1 {
			r.Errorf("after a later turn its outcome is %+v", e)
		}
		if n := len(r.messages(thread, "")); n != first+2 {
			r.Errorf("%d messages, want %d", n, first+2)
		}
		r.sent("bob")
		r.refused(agent.Input{Prompt: "something else", Key: in.Key}, segno.KindConflict, "key")
		in.Key = "request-2"
		r.one(r.run(in), agent.EventInterrupted)
		if r.question().ID == q.ID {
			r.Error("another key has the old question")
		}
	})
}

// TestAPromptThatIsRepeatedContinuesItsTurn sends a prompt without a key. The prompt itself is compared
// while its turn has not ended.
func TestAPromptThatIsRepeatedContinuesItsTurn(t *testing.T) {
	r := newRig(t)
	broken := errors.New("the model broke off")
	model := &script{answer: func(n int, _ agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
		switch n {
		case 1:
			return calls("c1", "send_email", `{"to":"bob"}`), nil
		case 2:
			return agent.Reply{}, broken
		}
		return says("done"), nil
	}}
	r.with(func(c *agent.Config) { c.Model = model })
	if _, err := r.try(agent.Input{Prompt: "go"}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	r.one(r.run(agent.Input{Prompt: "go"}), agent.EventDone)
	if n := len(r.messages(thread, "")); n != 4 {
		t.Errorf("%d messages, want 4: the prompt once", n)
	}
	r.run(agent.Input{Prompt: "go"})
	if n := len(r.messages(thread, "")); n != 6 {
		t.Errorf("%d messages, want 6: after the turn the prompt is a new one", n)
	}
	r.sent("bob")
}

func (r *rig) phase(want agent.Phase, questions int) agent.Status {
	r.Helper()
	s, err := r.agent.Status(r.ctx, thread)
	r.ok(err)
	if s.Phase != want || len(s.Interrupts) != questions {
		r.Errorf("the status is %s with %d questions, want %s with %d", s.Phase, len(s.Interrupts), want, questions)
	}
	for _, p := range []agent.Phase{agent.PhaseRunning, agent.PhaseWaiting, agent.PhaseBrokenOff, agent.PhaseDone} {
		if found := r.found(agent.FindQuery{Phase: p}); slices.Contains(found, thread) != (p == want) {
			r.Errorf("threads that are %s: %v; the thread is %s", p, found, want)
		}
	}
	return s
}

func TestStatus(t *testing.T) {
	eachStore(t, func(r *rig) {
		fails := true
		at, goOn := make(chan bool), make(chan bool)
		model := &script{answer: func(n int, _ agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
			switch {
			case n == 1:
				return calls("c1", "send_email", `{"to":"bob"}`), nil
			case fails:
				return agent.Reply{}, &agent.ModelError{Status: 400, Err: errors.New("no")}
			}
			at <- true
			<-goOn
			return says("all is sent"), nil
		}}
		r.asking().with(func(c *agent.Config) { c.Model = model })
		if _, err := r.agent.Status(r.ctx, thread); segno.KindOf(err) != segno.KindNotFound {
			r.Errorf("before there is a thread: %v", err)
		}
		r.prompt("go")
		s := r.phase(agent.PhaseWaiting, 1)
		r.refused(decisions(approve(s.Interrupts[0])), segno.KindInvalid)
		r.phase(agent.PhaseBrokenOff, 0)
		fails = false
		done := make(chan error)
		go func() {
			_, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
			done <- err
		}()
		<-at
		r.phase(agent.PhaseRunning, 0)
		if err := r.refused(agent.Input{}, segno.KindConflict); !errors.Is(err, agent.ErrRunning) {
			r.Errorf("%v is not ErrRunning", err)
		}
		goOn <- true
		r.ok(<-done)
		if s := r.phase(agent.PhaseDone, 0); s.Outcome.Text != "all is sent" || s.Turn != 1 || s.Outcome.Saved != s.Head {
			r.Errorf("the status is %+v", s)
		}
	})
}

// TestADecisionIsRecordedWhileAnotherCallRuns has a step with two calls. One of them is running
// when a person, in another process, approves the other.
func TestADecisionIsRecordedWhileAnotherCallRuns(t *testing.T) {
	eachStore(t, func(r *rig) {
		at, goOn := make(chan bool), make(chan bool)
		slow := agent.NewTool("slow", "takes long", agent.LostAsk, func(context.Context, *agent.Invocation, struct{}) (string, error) {
			at <- true
			<-goOn
			return "took long", nil
		})
		r.asking().with(func(c *agent.Config) { c.Tools = append(c.Tools, slow) })
		done := make(chan agent.Outcome)
		go func() {
			out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "call slow {} ; " + askMail + "\nsay both"})
			if err != nil {
				r.Errorf("the run ends with %v", err)
			}
			done <- out
		}()
		<-at
		q := r.question()
		other := agent.New(r.config)
		first, second := approve(q), reject(q, "no")
		first.Actor, second.Actor = "ann", "ben"
		r.ok(other.Decide(r.ctx, thread, first))
		r.ok(other.Decide(r.ctx, thread, first))
		if err := other.Decide(r.ctx, thread, second); !errors.Is(err, segno.ErrAnswered) || segno.KindOf(err) != segno.KindConflict {
			r.Errorf("the second decision fails with %v", err)
		}
		r.wants(other.Decide(r.ctx, thread, approve(segno.Interrupt{ID: "none"})), segno.KindNotFound)
		goOn <- true
		if out := <-done; !contains(out.Text, "both") || len(out.Interrupts) > 0 {
			r.Errorf("the run that was under way comes to %+v", out)
		}
		r.sent("bob")
		r.answers("took long", "sent to bob")
		var numbers []int64
		for e, err := range r.agent.Events(r.ctx, thread, 0) {
			r.ok(err)
			if e.Kind == agent.EventDecision && e.Decision.Actor != "ann" {
				r.Errorf("the log has %+v", e.Decision)
			}
			numbers = append(numbers, e.Seq)
		}
		for i := range numbers[1:] {
			if numbers[i] >= numbers[i+1] {
				r.Errorf("event %d has the number %d, the next %d", i, numbers[i], numbers[i+1])
			}
		}
	})
}

// TestADecisionBeforeTheAnswerOfAPersonAtHandCounts has another process decide while the run
// calls Config.Answer.
func TestADecisionBeforeTheAnswerOfAPersonAtHandCounts(t *testing.T) {
	r := newRig(t).asking()
	other := agent.New(r.config)
	asked := 0
	r.with(func(c *agent.Config) {
		c.Answer = func(ctx context.Context, open []segno.Interrupt) ([]segno.Decision, error) {
			asked++
			if err := other.Decide(ctx, thread, reject(open[0], "not now")); err != nil {
				return nil, err
			}
			return []segno.Decision{approve(open[0])}, nil
		}
	})
	r.one(r.prompt(askMail), agent.EventDone)
	r.sent()
	r.answers("rejected by the user: not now")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestADecisionOnATurnThatIsOver(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(askMail)
	q := r.question()
	r.ok(r.agent.Decide(r.ctx, thread, approve(q)))
	r.sent()
	r.phase(agent.PhaseBrokenOff, 0)
	r.finish()
	r.sent("bob")
	r.recorded(approve(q))
	r.ok(r.agent.Decide(r.ctx, thread, approve(q)))
	_, err := r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
	r.wants(r.agent.Decide(r.ctx, thread, approve(q)), segno.KindNotFound)
}
