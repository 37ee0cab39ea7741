package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// runner returns a worker with one runner, which retries without a pause.
func (r *rig) runner(f runnerFunc) *Worker {
	w := r.Worker(nil)
	w.Runners = map[string]Runner{"support": f}
	w.Retry = time.Millisecond
	return w
}

func done(text string) (Result, error) { return Result{Phase: agent.PhaseDone, Text: text}, nil }

// TestATurnThatFailsIsParked verifies that a turn is tried a number of times and is then parked with its error, and that later prompts
// of its thread wait, until Retry runs it again.
func TestATurnThatFailsIsParked(t *testing.T) {
	r := newRig(t)
	var attempts atomic.Int64
	var isFixed atomic.Bool
	w := r.runner(func(_ context.Context, work Work) (Result, error) {
		if work.Prompt.Text == "poison" && !isFixed.Load() {
			attempts.Add(1)
			return Result{}, errors.New("the model is out of order")
		}
		return done(work.Prompt.Text)
	})
	w.MaxAttempts = 3
	r.send(Prompt{Thread: "t", Text: "poison", Key: "1"})
	r.send(Prompt{Thread: "t", Text: "next", Key: "2"})
	r.send(Prompt{Thread: "other", Text: "hello", Key: "1"})
	r.start(w)
	p := r.await("t", "1", StateParked)
	if attempts.Load() != 3 || p.Attempts != 3 || p.Error != "the model is out of order" || p.Ended.IsZero() {
		t.Errorf("after %d attempts: %+v", attempts.Load(), p)
	}
	r.await("other", "1", StateDone)
	if p := r.prompt("t", "2"); p.State != StateSent {
		t.Errorf("the next prompt is %s", p.State)
	}
	isFixed.Store(true)
	if err := r.Retry(t.Context(), "t", "1"); err != nil {
		t.Fatal(err)
	}
	r.await("t", "2", StateDone)
	if p := r.prompt("t", "1"); p.State != StateDone || p.Error != "" {
		t.Errorf("the prompt is %+v", p)
	}
	if err := r.Retry(t.Context(), "t", "1"); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("retrying a prompt that is done: %v", err)
	}
	if err := r.Retry(t.Context(), "t", "9"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("retrying a prompt that was not sent: %v", err)
	}
}

// TestAPermanentErrorIsParkedAtOnce verifies that a turn is not repeated if it would fail in the same way.
func TestAPermanentErrorIsParkedAtOnce(t *testing.T) {
	r := newRig(t)
	r.send(Prompt{Thread: "t", Text: "x", Key: "1"})
	r.start(r.runner(func(context.Context, Work) (Result, error) {
		return Result{}, segno.Errorf(segno.KindRefused, "run", "t", "never")
	}))
	if p := r.await("t", "1", StateParked); p.Attempts != 1 {
		t.Errorf("it was parked after %d attempts", p.Attempts)
	}
}

// TestATurnThatPanicsIsParked verifies that a panic of a runner, or of an agent's model, is a failure like others. The agent's lease ends with it.
func TestATurnThatPanicsIsParked(t *testing.T) {
	r := newRig(t)
	model := panicking{}
	w := r.runner(func(context.Context, Work) (Result, error) { panic("the runner has a bug") })
	w.Runners["agent"] = r.AgentRunner(r.agent(func(c *agent.Config) { c.Model = model }))
	w.MaxAttempts = 2
	r.send(Prompt{Thread: "runner", Text: "x", Key: "k"})
	r.send(Prompt{Thread: "agent", Agent: "agent", Text: "x", Key: "k"})
	r.start(w)
	for _, thread := range []string{"runner", "agent"} {
		if p := r.await(thread, "k", StateParked); p.Attempts != 2 || !strings.Contains(p.Error, "has a bug") {
			t.Errorf("the prompt is %+v", p)
		}
	}
	if l, err := r.store.LeaseOf(t.Context(), "agent"); err != nil || l.Owner != "" {
		t.Errorf("the lease is %+v, %v", l, err)
	}
}

// panicking is a model that panics.
type panicking struct{ caller }

func (panicking) Generate(context.Context, agent.Request) iter.Seq2[agent.Chunk, error] {
	panic("the model has a bug")
}

// TestALostCallKeepsTheNextPrompt cuts a turn during a call, whose result is lost. The next prompt does not begin as long as it is not known
// whether the call happened. It is parked: if it waited, it would count as undone when the question is answered. Retry runs it after an
// undo of the turn, or after a decision about the call.
func TestALostCallKeepsTheNextPrompt(t *testing.T) {
	r := newRig(t)
	var paid log
	calling, cut := make(chan bool, 1), make(chan bool)
	pay := tool("pay", func(ctx context.Context) (string, error) {
		paid.add("pay")
		if ctx.Value(losesCall{}) == nil {
			return "paid", nil
		}
		calling <- true
		<-cut
		return "", ctx.Err()
	})
	pay.OnLost = agent.LostFail
	agents := r.with(pay)
	w := r.Worker(agents)
	r.start(w)
	for how, want := range map[segno.DecisionKind]string{"": "pay", segno.Reject: "pay", segno.Approve: "pay, pay", segno.Respond: "pay"} {
		paid.mu.Lock()
		paid.lines = nil
		paid.mu.Unlock()
		thread := "t" + string(how)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), losesCall{}, true))
		ended := make(chan error, 1)
		go func() {
			_, err := agents["support"].Run(ctx, agent.Input{Thread: thread, Prompt: "pay", Key: "1"})
			ended <- err
		}()
		<-calling
		cancel()
		cut <- true
		<-ended
		r.send(Prompt{Thread: thread, Text: "hello", Key: "k"})
		p := r.awaitThat(thread, "k", func(p *PromptState) bool { return p.State != StateSent && p.State != StateRunning })
		if p.State != StateParked {
			t.Fatalf("the prompt is %+v", p)
		}
		a := r.agentFor()
		if how == "" {
			if _, err := a.Undo(t.Context(), thread, 1); err != nil {
				t.Fatal(err)
			}
		} else {
			s, err := a.Status(t.Context(), thread)
			if err != nil || len(s.Interrupts) != 1 || s.Interrupts[0].Reason != segno.ReasonUnknown {
				t.Fatalf("the thread waits for %+v, %v", s.Interrupts, err)
			}
			if err := r.Decide(t.Context(), thread, segno.Decision{Interrupt: s.Interrupts[0].ID, Kind: how, Text: "it was paid"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Retry(t.Context(), thread, "k"); err != nil {
			t.Fatal(err)
		}
		p = r.awaitThat(thread, "k", func(p *PromptState) bool { return p.State == StateDone || p.State == StateParked })
		if p.State != StateDone || p.Outcome != "you said hello" {
			t.Errorf("after %q, the prompt is %+v", how, p)
		}
		if got := paid.String(); got != want {
			t.Errorf("after %q, the calls were made: %s", how, got)
		}
	}
}

// losesCall is the key of a context whose calls are cut.
type losesCall struct{}

// TestAPromptIsCancelled cancels prompts that were sent, run, wait and are parked. The prompts after them run.
func TestAPromptIsCancelled(t *testing.T) {
	r := newRig(t)
	agents := r.with(tool("ask", func(ctx context.Context) (string, error) {
		a, err := agent.Interrupt(ctx, agent.Ask{Text: "really?"})
		return a.Text, err
	}), tool("sleep", func(ctx context.Context) (string, error) {
		agent.Sleep(ctx, 1000*time.Hour)
		return "", nil
	}))
	running, cut := make(chan string, 1), make(chan error, 1)
	w := r.runner(func(ctx context.Context, work Work) (Result, error) {
		switch work.Prompt.Text {
		case "run":
			running <- "begun"
			<-ctx.Done()
			cut <- context.Cause(ctx)
			return Result{}, ctx.Err()
		case "poison":
			return Result{}, segno.NewError(segno.KindRefused, "run", "", nil)
		}
		return agentRunner{r.Fleet, agents["support"]}.Run(ctx, work)
	})
	texts := []string{"run", "ask", "sleep", "poison"}
	r.send(Prompt{Thread: "sent", Text: "x", Key: "k", At: time.Now().Add(time.Hour)})
	for _, text := range texts {
		r.send(Prompt{Thread: text, Text: text, Key: "k"})
		r.send(Prompt{Thread: text, Text: "hello", Key: "next"})
	}
	r.start(w)
	<-running
	r.await("ask", "k", StateWaiting)
	r.await("sleep", "k", StateWaiting)
	r.await("poison", "k", StateParked)
	for _, thread := range append(texts, "sent") {
		for range 2 {
			if err := r.Cancel(t.Context(), thread, "k"); err != nil {
				t.Errorf("%s: %v", thread, err)
			}
		}
	}
	<-cut
	for _, thread := range texts {
		if p := r.await(thread, "next", StateDone); p.Outcome != "you said hello" {
			t.Errorf("%s: %+v", thread, p)
		}
		if p := r.prompt(thread, "k"); p.State != StateCancelled {
			t.Errorf("%s is %s", thread, p.State)
		}
	}
	// The job of a dead worker was replaced, and the new one has not claimed the prompt.
	r.send(Prompt{Thread: "lost", Text: "x", Key: "k", At: time.Now().Add(time.Hour)})
	r.execute(`UPDATE {}fleet_prompts SET state = 'running', begun = true, claim = -1 WHERE thread = 'lost'`)
	if err := r.Cancel(t.Context(), "lost", "k"); err != nil {
		t.Error(err)
	}
	if err := r.Cancel(t.Context(), "run", "next"); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("cancelling a prompt that is done: %v", err)
	}
}

// TestAWorkerDrains ends a worker with a turn that ends in time, and one with a turn that is cut. Another worker continues the second
// turn, and the cut is not counted as a failure.
func TestAWorkerDrains(t *testing.T) {
	for _, isCut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut %v", isCut), func(t *testing.T) {
			r := newRig(t)
			running, finish := make(chan int, 2), make(chan bool)
			f := func(ctx context.Context, work Work) (Result, error) {
				running <- work.Attempt
				select {
				case <-finish:
					return done("done")
				case <-ctx.Done():
					return Result{}, ctx.Err()
				}
			}
			r.send(Prompt{Thread: "t", Text: "x", Key: "k"})
			w := r.runner(f)
			w.Drain, w.MaxAttempts = time.Hour, 1
			if isCut {
				w.Drain = time.Millisecond
			}
			stop := r.start(w)
			<-running
			if !isCut {
				go close(finish)
			}
			stop()
			if !isCut {
				if p := r.prompt("t", "k"); p.State != StateDone {
					t.Errorf("the prompt is %s", p.State)
				}
				return
			}
			r.start(r.runner(f))
			if attempt := <-running; attempt != 1 {
				t.Errorf("the next attempt is number %d", attempt)
			}
			close(finish)
			r.await("t", "k", StateDone)
		})
	}
}

// TestADrainCutsATurnThatWasWoken cuts a turn that continues after a decision. No other commit wakes it, so another worker continues it by
// the same job.
func TestADrainCutsATurnThatWasWoken(t *testing.T) {
	r := newRig(t)
	continued := make(chan bool, 2)
	var isFree atomic.Bool
	ask := tool("ask", func(ctx context.Context) (string, error) {
		a, err := agent.Interrupt(ctx, agent.Ask{Text: "really?"})
		if err != nil {
			return "", err
		}
		continued <- true
		if isFree.Load() {
			return a.Text, nil
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	ask.OnLost = agent.LostRetry
	agents := r.with(ask)
	r.send(Prompt{Thread: "ask", Text: "ask", Key: "k"})
	w := r.Worker(agents)
	w.Drain = time.Millisecond
	stop := r.start(w)
	question := r.awaitQuestion("ask")
	if err := r.Decide(t.Context(), "ask", segno.Decision{Interrupt: question.ID, Kind: segno.Respond, Text: "yes"}); err != nil {
		t.Fatal(err)
	}
	<-continued
	stop()
	if p := r.prompt("ask", "k"); p.State != StateWaiting || p.Attempts != 0 {
		t.Errorf("the prompt is %+v", p)
	}
	isFree.Store(true)
	r.start(r.Worker(agents))
	if p := r.await("ask", "k", StateDone); p.Outcome != "yes" {
		t.Errorf("the prompt is %+v", p)
	}
}

// TestAnotherRunHasTheThread verifies that a job waits for a run that has the thread, and that this is not a failure.
func TestAnotherRunHasTheThread(t *testing.T) {
	r := newRig(t)
	begun, finish := make(chan bool, 1), make(chan bool)
	agents := r.with(tool("hold", func(ctx context.Context) (string, error) {
		begun <- true
		<-finish
		return "held", nil
	}))
	other := make(chan error, 1)
	go func() {
		_, err := agents["support"].Run(t.Context(), agent.Input{Thread: "t", Prompt: "hold", Key: "mine"})
		other <- err
	}()
	<-begun
	r.send(Prompt{Thread: "t", Text: "hello", Key: "k"})
	met := make(chan error, 100)
	w := r.runner(func(ctx context.Context, work Work) (Result, error) {
		res, err := agentRunner{r.Fleet, agents["support"]}.Run(ctx, work)
		if err != nil {
			met <- err
		}
		return res, err
	})
	w.MaxAttempts = 1
	r.start(w)
	if err := <-met; !errors.Is(err, agent.ErrRunning) {
		t.Errorf("the attempt failed with %v", err)
	}
	close(finish)
	if err := <-other; err != nil {
		t.Error(err)
	}
	if p := r.await("t", "k", StateDone); p.Outcome != "you said hello" {
		t.Errorf("the prompt is %+v", p)
	}
}

// TestAKeyIsForOnePrompt verifies that another prompt with a used key is refused, also after the first one was answered.
func TestAKeyIsForOnePrompt(t *testing.T) {
	r := newRig(t)
	p := Prompt{Thread: "t", Text: "x", Key: "k"}
	first := r.send(p)
	r.start(r.runner(func(context.Context, Work) (Result, error) { return done("y") }))
	r.await("t", "k", StateDone)
	if again := r.send(p); again.IsNew || again.State != StateDone || again.N != first.N {
		t.Errorf("sent again as %+v", again)
	}
	for _, other := range []Prompt{{Thread: "t", Agent: "support", Text: "z", Key: "k"}, {Thread: "t", Agent: "sales", Text: "x", Key: "k"}} {
		if _, err := r.Send(t.Context(), other); segno.KindOf(err) != segno.KindConflict {
			t.Errorf("%+v was sent: %v", other, err)
		}
	}
	for _, bad := range []Prompt{{Agent: "a", Text: "x"}, {Thread: "t", Text: "x"}, {Thread: "t", Agent: "a"}, {Thread: "t\x00", Agent: "a", Text: "x"},
		{Thread: "t", Agent: "a", Text: "x", Priority: 5}, {Thread: "t", Agent: "a", Text: "x", Key: "\xff"}, {Thread: "t", Agent: "a", Text: "x", Key: strings.Repeat("x", 2000)}, {Thread: strings.Repeat("x", 2000), Agent: "a", Text: "x"}} {
		if _, err := r.Send(t.Context(), bad); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%.60v was sent: %v", bad, err)
		}
	}
}
