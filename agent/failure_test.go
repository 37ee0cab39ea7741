package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
)

func modelBreaksOff(r *rig) {
	model := &script{answer: func(n int, _ agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
		switch n {
		case 1:
			return calls("c1", "send_email", `{"to":"bob"}`), nil
		case 2:
			return agent.Reply{}, &agent.ModelError{Status: 400, Err: errors.New("no credit")}
		}
		return says("done"), nil
	}}
	r.with(func(c *agent.Config) { c.Model = model })
	all, err := r.try(agent.Input{Prompt: "go"})
	if err == nil || !contains(err.Error(), "no credit") {
		r.Fatalf("the run ends with %v", err)
	}
	if last := all[len(all)-1]; last.Kind != agent.EventError || !contains(last.Text, "no credit") {
		r.Errorf("the last event is %+v", last)
	}
	r.restart()
	r.answers("sent to bob")
	r.finish()
	r.sent("bob")
	if n := len(model.requests()); n != 3 {
		r.Errorf("the model was asked %d times, want 3", n)
	}
}

var errBusy = errors.New("overloaded")

// failing returns a model that fails transiently a few times, in the middle of a word.
func failing(times int, after time.Duration) *script {
	return &script{answer: func(n int, _ agent.Request, say func(agent.Chunk)) (agent.Reply, error) {
		if n <= times {
			say(agent.Chunk{Text: fmt.Sprint("half ", n)})
			return agent.Reply{}, &agent.ModelError{Status: 529, Retry: true, After: after, Err: errBusy}
		}
		say(agent.Chunk{Text: "whole"})
		return says("whole"), nil
	}}
}

func TestAModelThatFailsInPassingIsAskedAgainLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := failing(3, 0)
		r := newRig(t).with(func(c *agent.Config) { c.Model, c.Retry = model, agent.Retry{Wait: time.Second} })
		began := time.Now()
		all := r.prompt("go")
		if n := len(model.requests()); n != 4 {
			t.Errorf("asked %d times, want 4", n)
		}
		retries := all.of(agent.EventRetry)
		if len(retries) != 3 || !contains(retries[0].Text, "overloaded") || !contains(retries[1].Text, "; try 3 of 5 in ") {
			t.Fatalf("told %+v", retries)
		}
		// The waits are one, two and four seconds, each reduced by up to a half.
		if took := time.Since(began); took < 3500*time.Millisecond || took > 7*time.Second {
			t.Errorf("it took %s", took)
		}
		for i := range 2 {
			if first, second := retries[i].Time, retries[i+1].Time; second.Sub(first) < time.Second<<i/2 || second.Sub(first) > time.Second<<i {
				t.Errorf("retry %d comes %s after the one before", i+2, second.Sub(first))
			}
		}
		if m := r.messages(thread, ""); len(m) != 2 || m[1].Text() != "whole" {
			t.Errorf("kept: %+v", m)
		}
		for _, e := range all.numbered() {
			if contains(e.Text, "half") {
				t.Errorf("%s tells of what failed: %q", e.Kind, e.Text)
			}
		}
	})
}

func TestAServerThatSaysHowLongIsBelieved(t *testing.T) {
	for _, after := range []time.Duration{30 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).with(func(c *agent.Config) { c.Model, c.Retry = failing(1, after), agent.Retry{Wait: time.Millisecond} })
			began := time.Now()
			r.prompt("go")
			if took := time.Since(began); took != after {
				t.Errorf("the server asks for %s, and it took %s", after, took)
			}
		})
	}
}

// TestAServerThatAsksForALongWaitEndsTheRun has a server ask for more than MaxWait. The run ends at once,
// without further requests that the server would count, and the error has the time.
func TestAServerThatAsksForALongWaitEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := failing(1, 2*time.Hour)
		r := newRig(t).with(func(c *agent.Config) { c.Model, c.Retry = model, agent.Retry{} })
		began := time.Now()
		_, err := r.try(agent.Input{Prompt: "go"})
		r.wants(err, segno.KindBusy, "overloaded", "asks to wait 2h0m0s")
		var failed *agent.ModelError
		if !errors.As(err, &failed) || failed.After != 2*time.Hour || !contains(segno.HintOf(err), "Retry.MaxWait") {
			t.Errorf("error %v, hint %q", err, segno.HintOf(err))
		}
		if n := len(model.requests()); n != 1 || time.Since(began) != 0 {
			t.Errorf("%d requests in %s, want one at once", n, time.Since(began))
		}
		r.finish() // the turn continues once the server answers
		r.with(func(c *agent.Config) { c.Model, c.Retry = failing(1, 2*time.Hour), agent.Retry{MaxWait: 3 * time.Hour} })
		began = time.Now()
		r.prompt("again")
		if took := time.Since(began); took != 2*time.Hour {
			t.Errorf("with a longer MaxWait it took %s", took)
		}
	})
}

func TestAModelThatGoesOnFailingIsGivenUp(t *testing.T) {
	model := failing(100, 0)
	r := newRig(t).with(func(c *agent.Config) { c.Model, c.Retry = model, agent.Retry{Attempts: 3, Wait: time.Microsecond} })
	all, err := r.try(agent.Input{Prompt: "go"})
	var failed *agent.ModelError
	if !errors.As(err, &failed) || failed.Status != 529 || !errors.Is(err, errBusy) {
		t.Errorf("it ends with %v", err)
	}
	if n := len(model.requests()); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
	if n := len(all.of(agent.EventRetry)); n != 2 {
		t.Errorf("told of %d retries, want 2", n)
	}
	if m := r.messages(thread, ""); len(m) != 1 {
		t.Errorf("kept: %+v", m)
	}
}

func TestAModelsAnswerThatIsFinalIsNotAskedForAgain(t *testing.T) {
	for name, err := range map[string]error{
		"a model error":  &agent.ModelError{Status: 401, Err: errors.New("no key")},
		"any other":      errors.New("a bug"),
		"a cancellation": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			model := &script{answer: func(int, agent.Request, func(agent.Chunk)) (agent.Reply, error) { return agent.Reply{}, err }}
			r := newRig(t).with(func(c *agent.Config) { c.Model = model })
			if _, got := r.try(agent.Input{Prompt: "go"}); !errors.Is(got, err) {
				t.Errorf("it ends with %v, want %v", got, err)
			}
			if n := len(model.requests()); n != 1 {
				t.Errorf("asked %d times, want once", n)
			}
		})
	}
}

func TestAWaitForTheModelCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).with(func(c *agent.Config) { c.Model, c.Retry = failing(100, time.Hour), agent.Retry{MaxWait: time.Hour} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.ctx = ctx
		began := time.Now()
		_, err := r.try(agent.Input{Prompt: "go"})
		r.wants(err, segno.KindCancelled)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestAModelInMidSentenceCanBeCancelled(t *testing.T) {
	eachStore(t, func(r *rig) {
		model := &script{}
		r.with(func(c *agent.Config) { c.Model = model })
		outer := r.ctx
		ctx, cancel := context.WithCancel(outer)
		defer cancel()
		model.answer = func(n int, _ agent.Request, say func(agent.Chunk)) (agent.Reply, error) {
			if n > 1 {
				return says("whole"), nil
			}
			say(agent.Chunk{Text: "half"})
			<-ctx.Done()
			return agent.Reply{}, ctx.Err()
		}
		r.ctx = ctx
		var last agent.Event
		var err error
		for last, err = range r.agent.Stream(ctx, agent.Input{Thread: thread, Prompt: "go"}) {
			if last.Kind == agent.EventText {
				cancel()
			}
		}
		r.wants(err, segno.KindCancelled)
		if last.Kind != agent.EventError || !errors.Is(err, context.Canceled) {
			r.Errorf("it ends with %s, %v", last.Kind, err)
		}
		r.ctx = outer
		if m := r.messages(thread, ""); len(m) != 1 {
			r.Errorf("kept: %+v", m)
		}
		r.restart()
		if done := r.one(r.finish(), agent.EventDone); done.Text != "whole" {
			r.Errorf("it goes on with %q", done.Text)
		}
	})
}

// TestACommandDiesWithItsRun cancels a run whose command has children. All of them
// hold a pipe open, so the pipe ends when the last of them ends.
func TestACommandDiesWithItsRun(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t).with(func(c *agent.Config) { c.Tools = []agent.Tool{tool.Execute(dir, tool.ExecuteOptions{})} })
	outer := r.ctx
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := r.agent.Run(ctx, agent.Input{Thread: thread, Prompt: "run exec 3>fifo; (trap '' TERM; sleep 1000) & echo ready >&3; sleep 1000"})
		ended <- err
	}()
	f, err := os.Open(fifo)
	r.ok(err)
	defer f.Close()
	in := bufio.NewReader(f)
	if text, err := in.ReadString('\n'); text != "ready\n" {
		t.Fatal(text, err)
	}
	cancel()
	r.wants(<-ended, segno.KindCancelled)
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	// The result is known: no question is needed.
	r.ctx = outer
	if res := r.results(thread); len(res) != 1 || !res[0].Error && !contains(res[0].Text, "cancel") {
		t.Errorf("the model is told %+v", res)
	}
	r.one(r.finish(), agent.EventDone)
}

func TestACancelledToolIsNotLost(t *testing.T) {
	eachStore(t, func(r *rig) {
		outer := r.ctx
		ctx, cancel := context.WithCancel(outer)
		defer cancel()
		slow := agent.NewTool("slow", "sends, and is cancelled", agent.LostAsk, func(ctx context.Context, _ *agent.Invocation, m mail) (string, error) {
			r.mails.mu.Lock()
			r.mails.to = append(r.mails.to, m.To)
			r.mails.mu.Unlock()
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		})
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, slow) })
		r.ctx = ctx
		_, err := r.try(agent.Input{Prompt: `call slow {"to":"bob"} ; write a.txt: one`})
		r.wants(err, segno.KindCancelled)
		r.ctx = outer
		r.restart()
		// The mail may have been sent: only a person can tell.
		r.run(agent.Input{})
		asked := r.question()
		if asked.Reason != segno.ReasonUnknown || asked.Tool != "slow" {
			r.Fatalf("it asks %+v", asked)
		}
		r.finish(segno.Decision{Interrupt: asked.ID, Kind: segno.Respond, Text: "it was sent"})
		r.sent("bob")
		if res := r.results(thread); len(res) != 2 {
			r.Errorf("the model is told %+v", res)
		}
	})
}

func TestARunTakesSoManySteps(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.with(func(c *agent.Config) { c.MaxSteps = 2 })
		prompt := "write a: 1\nwrite b: 2\nwrite c: 3\nwrite d: 4"
		err := r.refused(agent.Input{Prompt: prompt}, segno.KindRefused, "2 steps")
		if segno.HintOf(err) == "" {
			r.Error("no hint")
		}
		if n := len(r.results(thread)); n != 2 {
			r.Errorf("%d results, want 2", n)
		}
		r.refused(agent.Input{}, segno.KindRefused)
		r.finish()
		r.answers("wrote a", "wrote b", "wrote c", "wrote d")
	})
}

func TestModelReceivesErrorOfInvalidCall(t *testing.T) {
	for name, c := range map[string]struct {
		tool, args string
		words      []string
	}{
		"a tool that is not there":     {"fly", `{}`, []string{"fly"}},
		"arguments that are no JSON":   {"send_email", `{"to":`, []string{"to"}},
		"arguments of the wrong type":  {"send_email", `{"to":7}`, []string{"schema"}},
		"arguments that are missing":   {"send_email", `{}`, []string{"to"}},
		"arguments that are too many":  {"send_email", `{"to":"a","bcc":"b"}`, []string{"bcc"}},
		"arguments that are no object": {"send_email", `[1]`, []string{"schema"}},
		"arguments that are not there": {"send_email", ``, []string{"to"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				model := replies(calls("c1", c.tool, c.args), says("sorry"))
				r.asking().with(func(conf *agent.Config) { conf.Model = model })
				r.one(r.prompt("go"), agent.EventDone)
				r.sent()
				res := r.results(thread)
				if len(res) != 1 || !res[0].Error || !contains(res[0].Text, c.words...) {
					r.Errorf("the model is told %+v", res)
				}
				r.restart()
				r.one(r.prompt("again"), agent.EventDone)
				for i, q := range model.requests() {
					if err := paired(q); err != nil {
						r.Errorf("request %d: %v", i+1, err)
					}
				}
			})
		})
	}
}

func TestModelReceivesErrorOfTool(t *testing.T) {
	bad := agent.NewTool("bad", "fails", agent.LostAsk, func(context.Context, *agent.Invocation, struct{}) (string, error) {
		return "", errors.New("the moon is down")
	})
	r := newRig(t).with(func(c *agent.Config) { c.Tools = append(c.Tools, bad) })
	r.one(r.prompt("call bad {} ; write a.txt: one"), agent.EventDone)
	if res := r.results(thread); len(res) != 2 || !res[0].Error || res[0].Text != "the moon is down" || res[1].Error {
		t.Errorf("the model is told %+v", res)
	}
}

func TestACallThatOnlyReadsAndWasCutShortIsMadeAgain(t *testing.T) {
	eachStore(t, func(r *rig) {
		outer := r.ctx
		ctx, cancel := context.WithCancel(outer)
		defer cancel()
		look := agent.NewTool("look", "looks, and is cancelled the first time", agent.LostRerun, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
			cancel()
			return "seen", ctx.Err()
		})
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, look) })
		r.ctx = ctx
		_, err := r.try(agent.Input{Prompt: `call look {} ; call send_email {"to":"bob"}`})
		r.wants(err, segno.KindCancelled)
		r.ctx = outer
		r.restart()
		r.finish()
		r.sent("bob")
		if res := r.results(thread); len(res) != 2 || res[0].Error || res[1].Error {
			r.Errorf("the model is told %+v", res)
		}
	})
}

func TestAModelThatEndsWithoutAnAnswerIsAskedAgain(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) { c.Model = &silent{} })
	all := r.prompt("go")
	if n := len(all.of(agent.EventRetry)); n != 1 {
		t.Errorf("%d retries, want 1", n)
	}
	if m := r.messages(thread, ""); len(m) != 2 || m[1].Text() != "whole" {
		t.Errorf("kept: %+v", m)
	}
}

// silent is a model whose first answer ends early without an error.
type silent struct{ asked bool }

func (*silent) Name() string { return "test/silent" }

func (s *silent) Generate(context.Context, agent.Request) iter.Seq2[agent.Chunk, error] {
	return func(yield func(agent.Chunk, error) bool) {
		reply := says("whole")
		if s.asked || !yield(agent.Chunk{Text: "hal"}, nil) {
			yield(agent.Chunk{Reply: &reply}, nil)
		}
		s.asked = true
	}
}

func TestAPromptOverACallThatWasCutShortTellsTheModelThatItDidNotRun(t *testing.T) {
	outer := t.Context()
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	sent := make(chan struct{})
	look := agent.NewTool("look", "looks, and is cancelled", agent.LostRerun, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
		<-sent
		cancel()
		return "", ctx.Err()
	})
	model := replies(calls("1", "look", `{}`, "2", "send_email", `{"to":"bob"}`), says("hi"))
	r := newRig(t)
	send := r.mails.tool(agent.LostAsk)
	whole := send.Run
	send.Run = func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		defer close(sent)
		return whole(ctx, inv)
	}
	r.with(func(c *agent.Config) { c.Model, c.Tools = model, []agent.Tool{look, send} })
	r.ctx = ctx
	_, err := r.try(agent.Input{Prompt: "go"})
	r.wants(err, segno.KindCancelled)
	r.ctx = outer
	r.restart()
	r.one(r.prompt("something else"), agent.EventDone)
	r.sent("bob")
	asked := model.requests()
	if err := paired(asked[len(asked)-1]); err != nil {
		t.Error(err)
	}
	if res := r.results(thread); len(res) != 2 {
		t.Errorf("the model is told %+v", res)
	}
}
