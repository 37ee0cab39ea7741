package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
)

// anHour sleeps for an hour and reports how often it woke.
func anHour(did *diary) func(ctx context.Context, inv *agent.Invocation) (string, error) {
	return func(ctx context.Context, inv *agent.Invocation) (string, error) {
		did.add("begin")
		agent.Sleep(ctx, time.Hour)
		did.add("awake")
		return "slept", inv.State.Set("awake", true)
	}
}

func TestAForkOfASleepingThreadHasItsOwnSleep(t *testing.T) {
	eachStore(t, func(r *rig) {
		var did diary
		keys := map[string]bool{}
		sleep := anHour(&did)
		c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
			defer func() { keys[inv.Key] = true }()
			return sleep(ctx, inv)
		})
		i := r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
		at, err := r.agent.Status(r.ctx, thread)
		r.ok(err)
		s, err := r.agent.Fork(r.ctx, at.Head, "fork")
		r.ok(err)
		if len(s.Interrupts) != 1 || s.Interrupts[0].ID == i.ID || !s.Wake.Equal(i.Wake) || s.Phase != agent.PhaseWaiting {
			t.Errorf("the fork waits for %+v until %s", s.Interrupts, s.Wake)
		}
		c.advance(time.Hour)
		for _, id := range []string{"fork", thread} {
			r.one(r.run(agent.Input{Thread: id}), agent.EventDone)
		}
		did.has(t, "begin", "begin", "awake", "begin", "awake")
		if len(keys) != 2 {
			t.Errorf("the calls have the keys %v, want one for each thread", keys)
		}
	})
}

func TestAWaitingTurnIsUndoneRedoneAndRestored(t *testing.T) {
	eachStore(t, func(r *rig) {
		var did diary
		r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
			n, _ := agent.Do(ctx, "count", func(context.Context) (int, error) { did.add("count"); return 1, nil })
			a, err := agent.Interrupt(ctx, agent.Ask{Text: "go on?"})
			return fmt.Sprint(n, a.Text), err
		})
		r.prompt("say hello")
		first := r.waits(agent.Input{Prompt: callWork}, segno.ReasonQuestion)
		waiting, err := r.agent.Status(r.ctx, thread)
		r.ok(err)
		r.undo(1)
		if s, _ := r.agent.Status(r.ctx, thread); s.Phase != agent.PhaseDone || s.Turn != 1 {
			t.Errorf("undone, the thread is %+v", s)
		}
		r.redo(1)
		r.finish(respond(r.question(), "yes"))
		s, err := r.agent.Restore(r.ctx, thread, waiting.Head)
		r.ok(err)
		if len(s.Interrupts) != 1 || s.Interrupts[0].ID == first.ID {
			t.Fatalf("restored, it asks %+v", s.Interrupts)
		}
		if _, err := r.try(decisions(respond(first, "again"))); err == nil {
			t.Error("a decision about the question of another line is accepted")
		}
		r.finish(respond(s.Interrupts[0], "no"))
		r.answers("1no")
		did.has(t, "count")
	})
}

// TestCallsOfAStepWaitAtOnce has three calls of a step: two wait, and one runs until the test has
// seen that the others' waits are recorded.
func TestCallsOfAStepWaitAtOnce(t *testing.T) {
	eachStore(t, func(r *rig) {
		release := make(chan struct{})
		c := r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
			agent.Sleep(ctx, time.Hour)
			return "slept", nil
		})
		r.with(func(config *agent.Config) {
			config.Tools = append(config.Tools,
				agent.NewTool("ask", "asks", agent.LostAsk, func(ctx context.Context, inv *agent.Invocation, _ noArgs) (string, error) {
					a, err := agent.Interrupt(ctx, agent.Ask{Text: "?"})
					return a.Text, err
				}),
				agent.NewTool("long", "takes long", agent.LostAsk, func(context.Context, *agent.Invocation, noArgs) (string, error) {
					<-release
					return "done", nil
				}))
		})
		var all eventList
		recorded := 0
		for e, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Prompt: "call work {} ; call ask {} ; call long {}"}) {
			r.ok(err)
			all = append(all, e)
			if e.Kind == agent.EventWaiting || e.Kind == agent.EventApproval {
				if recorded++; recorded == 2 {
					if open := r.open(thread); len(open) != 2 {
						t.Errorf("while a call runs, the log has the waits %+v", open)
					}
					close(release)
				}
			}
		}
		last := all[len(all)-1]
		if len(last.Interrupts) != 2 || !last.Wake.Equal(c.Now().Add(time.Hour)) {
			t.Fatalf("the run ends with %+v", last)
		}
		q := last.Interrupts[slices.IndexFunc(last.Interrupts, func(i segno.Interrupt) bool { return i.Reason == segno.ReasonQuestion })]
		r.waits(decisions(respond(q, "yes")), segno.ReasonSleep)
		r.refused(agent.Input{Prompt: "say hello"}, segno.KindRefused, "sleep")
		c.advance(time.Hour)
		r.finish()
		if got := r.results(thread); len(got) != 3 {
			t.Errorf("results %+v", got)
		}
	})
}

func TestASubagentWaits(t *testing.T) {
	eachStore(t, func(r *rig) {
		var did diary
		c := r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
			did.add("begin")
			agent.Sleep(ctx, time.Hour)
			a, err := agent.Interrupt(ctx, agent.Ask{Text: "which?"})
			if err != nil {
				return "", err
			}
			s, err := agent.Await(ctx, "paid")
			did.add("end")
			return a.Text + s.Text, err
		})
		r.with(func(c *agent.Config) { c.Subagents = []agent.Subagent{{Name: "helper"}} })
		r.prompt("say hello")
		r.ok(r.agent.Signal(r.ctx, thread, "paid", "1", 5)) // to the agent's thread, before the task begins
		i := r.waits(agent.Input{Prompt: "task helper: call work {}"}, segno.ReasonSleep)
		if i.Via == "" || i.Thread == thread {
			t.Errorf("the wait of a task is %+v", i)
		}
		r.restart()
		c.advance(time.Hour)
		q := r.waits(agent.Input{}, segno.ReasonQuestion)
		r.restart()
		r.finish(respond(q, "this"))
		r.answers("work: this5")
		did.has(t, "begin", "begin", "begin", "begin", "end")
	})
}

func TestAForkOfATaskThatSleeps(t *testing.T) {
	r := newRig(t)
	var did diary
	c := r.waiting(agent.LostAsk, anHour(&did))
	r.with(func(c *agent.Config) { c.Subagents = []agent.Subagent{{Name: "helper"}} })
	i := r.waits(agent.Input{Prompt: "task helper: call work {}"}, segno.ReasonSleep)
	at, err := r.agent.Status(r.ctx, thread)
	r.ok(err)
	s, err := r.agent.Fork(r.ctx, at.Head, "fork")
	r.ok(err)
	if len(s.Interrupts) != 1 || s.Interrupts[0].ID == i.ID || !s.Wake.Equal(i.Wake) {
		t.Errorf("the fork waits for %+v", s.Interrupts)
	}
	c.advance(time.Hour)
	for _, id := range []string{"fork", thread} {
		r.one(r.run(agent.Input{Thread: id}), agent.EventDone)
	}
	did.has(t, "begin", "begin", "awake", "begin", "awake")
}

func TestAnApprovedCallWaitsAndKeepsItsEdit(t *testing.T) {
	for _, onLost := range []agent.OnLost{agent.LostAsk, agent.LostRetry, agent.LostRerun} {
		t.Run(string(onLost), func(t *testing.T) {
			r := newRig(t)
			c := newClock()
			r.with(func(config *agent.Config) {
				config.Now, config.Approve = c.Now, agent.RequireApproval("mail")
				config.Tools = append(config.Tools, agent.NewTool("mail", "mails", onLost, func(ctx context.Context, _ *agent.Invocation, m mail) (string, error) {
					agent.Sleep(ctx, time.Hour)
					agent.Sleep(ctx, time.Hour)
					return "sent to " + m.To, nil
				}))
			})
			q := r.waits(agent.Input{Prompt: `call mail {"to":"bob"}`}, segno.ReasonApproval)
			r.waits(decisions(edit(q, `{"to":"eve"}`)), segno.ReasonSleep)
			for range 2 {
				c.advance(time.Hour)
				r.restart()
				r.run(agent.Input{})
			}
			if got := r.results(thread); len(got) != 1 || !contains(got[0].Text, "sent to eve") {
				t.Errorf("results %+v", got)
			}
		})
	}
}

func TestAStructuredAnswerComesAfterAWait(t *testing.T) {
	r := newRig(t)
	var did diary
	c := r.waiting(agent.LostAsk, anHour(&did))
	model := replies(calls("1", "work", "{}", "2", "final_answer", `{"n":7}`))
	r.with(func(c *agent.Config) { c.Model = model })
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	r.waits(agent.Input{Prompt: "go", Output: schema}, segno.ReasonSleep)
	c.advance(time.Hour)
	r.restart()
	out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
	r.ok(err)
	if string(out.Output) != `{"n":7}` || len(model.requests()) != 1 {
		t.Errorf("the outcome is %+v after %d requests", out, len(model.requests()))
	}
	did.has(t, "begin", "begin", "awake")
}

// TestNoCodeRunsAfterAWait has tools that try to go on: they recover panics, or wait in another
// goroutine.
func TestNoCodeRunsAfterAWait(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context){
		"recovering": func(ctx context.Context) {
			defer func() { _ = recover() }()
			agent.Sleep(ctx, time.Hour)
		},
		"in a goroutine": func(ctx context.Context) {
			var group sync.WaitGroup
			group.Go(func() { agent.Sleep(ctx, time.Hour) })
			group.Wait()
			if ctx.Err() != nil {
				runtime.Goexit()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var did diary
			c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
				defer did.add("deferred")
				if len(did.lines) == 0 {
					defer func() {
						_, _ = agent.Do(ctx, "late", func(context.Context) (int, error) { did.add("late"); return 0, nil })
					}()
				}
				wait(ctx)
				did.add("awake")
				return "slept", nil
			})
			r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
			did.has(t, "deferred")
			c.advance(time.Hour)
			r.finish()
			did.has(t, "deferred", "awake", "deferred")
		})
	}
}

// TestAResultAfterAnIgnoredWaitDoesNotCount has a tool whose own goroutine goes on although another
// one waits.
func TestAResultAfterAnIgnoredWaitDoesNotCount(t *testing.T) {
	r := newRig(t)
	c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
		var group sync.WaitGroup
		group.Go(func() { agent.Sleep(ctx, time.Hour) })
		group.Wait()
		err := inv.State.Set("n", 1)
		_, _ = agent.Do(ctx, "after", func(context.Context) (int, error) {
			if context.Cause(ctx) != nil {
				t.Error("a step begins after a wait")
			}
			return 0, nil
		})
		return "went on", err
	})
	r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
	if len(r.results(thread)) != 0 {
		t.Errorf("results %+v", r.results(thread))
	}
	c.advance(time.Hour)
	r.finish()
	r.answers("went on")
}

// TestAStepThatTakesTooLongHasFailed has a step with a deadline of its own. The run goes on.
func TestAStepThatTakesTooLongHasFailed(t *testing.T) {
	r := newRig(t)
	steps := 0
	c := r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := agent.Do(short, "slow", func(ctx context.Context) (int, error) {
			steps++
			cancel()
			return 0, ctx.Err()
		})
		agent.Sleep(ctx, time.Hour)
		return "it failed: " + err.Error(), nil
	})
	r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
	c.advance(time.Hour)
	r.finish()
	if r.answers("it failed: context canceled"); steps != 1 {
		t.Errorf("the step ran %d times", steps)
	}
}

// TestStepsRecordStateAndEvents checks that the changes of a step are made again with its result,
// and that changes outside of steps are made once.
func TestStepsRecordStateAndEvents(t *testing.T) {
	eachStore(t, func(r *rig) {
		add := func(inv *agent.Invocation, key string) error {
			return inv.State.Update(key, func(old json.RawMessage) (any, error) { return string(old) + "1", nil })
		}
		c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
			if err := add(inv, "outside"); err != nil {
				return "", err
			}
			_, err := agent.Do(ctx, "step", func(context.Context) (any, error) {
				inv.Emit(agent.Event{Kind: "stepped", Text: "in a step"})
				inv.State.Delete("gone")
				return nil, add(inv, "inside")
			})
			if err != nil {
				return "", err
			}
			_, failed := agent.Do(ctx, "failing", func(context.Context) (int, error) { return 0, fmt.Errorf("no luck") })
			agent.Sleep(ctx, time.Hour)
			return "failed: " + failed.Error(), nil
		})
		r.with(func(config *agent.Config) {
			config.Tools = append(config.Tools, agent.NewTool("set", "sets", agent.LostRerun, func(_ context.Context, inv *agent.Invocation, _ noArgs) (string, error) {
				return "set", inv.State.Set("gone", 1)
			}))
		})
		all := r.run(agent.Input{Prompt: "call set {}\n" + callWork})
		if n := len(all.of("stepped")); n != 0 {
			t.Errorf("%d events before the result", n)
		}
		c.advance(time.Hour)
		r.restart()
		r.one(r.finish(), "stepped")
		r.answers("set", "failed: no luck")
		snapshot, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
		r.ok(err)
		for key, want := range map[string]string{"outside": `"1"`, "inside": `"1"`, "gone": ""} {
			if got := string(snapshot.State[key]); got != want {
				t.Errorf("the value %q is %s, want %s", key, got, want)
			}
		}
		for key := range snapshot.State {
			if contains(key, ".steps/") {
				t.Errorf("the call has ended and the state has %s", key)
			}
		}
	})
}

// TestWaitsUnderOtherClocks runs a thread on machines whose clocks differ by minutes.
func TestWaitsUnderOtherClocks(t *testing.T) {
	r := newRig(t)
	var did diary
	c := r.waiting(agent.LostAsk, anHour(&did))
	i := r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
	c.advance(time.Hour)
	behind := func() time.Time { return c.Now().Add(-3 * time.Minute) }
	r.with(func(config *agent.Config) { config.Now = behind })
	out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
	r.ok(err)
	if len(out.Interrupts) != 1 || !out.Wake.Equal(i.Wake) {
		t.Errorf("a machine whose clock is behind ends with %+v: its caller does not know when to run again", out)
	}
	c.advance(3 * time.Minute)
	r.finish()
	did.has(t, "begin", "begin", "awake")
}

func TestAnUnsavedRunCannotWait(t *testing.T) {
	r := newRig(t)
	var did diary
	r.waiting(agent.LostAsk, anHour(&did))
	r.with(func(c *agent.Config) {})
	_, err := agent.New(agent.Config{Model: r.config.Model, Tools: r.config.Tools}).Run(r.ctx, agent.Input{Prompt: callWork})
	r.wants(err, segno.KindRefused, "not saved", "sleep")
}

// TestConfigAnswerReceivesQuestionsOnly checks that a sleep is not shown to a person.
func TestConfigAnswerReceivesQuestionsOnly(t *testing.T) {
	r := newRig(t)
	c := r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
		agent.Sleep(ctx, time.Hour)
		a, err := agent.Interrupt(ctx, agent.Ask{Text: "and now?"})
		return a.Text, err
	})
	asked := 0
	r.with(func(config *agent.Config) {
		config.Answer = func(_ context.Context, open []segno.Interrupt) (all []segno.Decision, _ error) {
			for _, i := range open {
				if asked++; i.Reason != segno.ReasonQuestion {
					t.Errorf("it asks about %+v", i)
				}
				all = append(all, respond(i, "onward"))
			}
			return all, nil
		}
	})
	r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
	c.advance(time.Hour)
	r.finish()
	if r.answers("onward"); asked != 1 {
		t.Errorf("it asks %d times", asked)
	}
}

// TestAChildThatSleepsOrFails runs the other thread in the same process.
func TestAChildThatSleepsOrFails(t *testing.T) {
	r := newRig(t)
	var did diary
	c := r.waiting(agent.LostAsk, anHour(&did))
	helper := agent.New(r.config) // its tool sleeps
	broken := agent.New(agent.Config{Store: r.store, Model: r.config.Model, MaxSteps: 1, Tools: r.config.Tools})
	r.config.Tools = r.config.Tools[:len(r.config.Tools)-1]
	r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
		a, err := agent.Child(ctx, segno.Child{Agent: "helper", Thread: "h", Prompt: callWork, Key: "k"})
		if err != nil {
			return "", err
		}
		_, err = agent.Child(ctx, segno.Child{Agent: "broken", Prompt: "todo a\ntodo b"})
		return a.Text, fmt.Errorf("after %q: %w", a.Text, err)
	})
	r.with(func(config *agent.Config) {
		config.Now, config.Agents = c.Now, map[string]*agent.Agent{"helper": helper, "broken": broken}
	})
	out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: callWork})
	r.ok(err)
	if want := c.Now().Add(time.Hour); len(out.Interrupts) != 1 || !out.Wake.Equal(want) {
		t.Errorf("it waits for %+v until %s, want %s", out.Interrupts, out.Wake, want)
	}
	c.advance(time.Hour)
	r.finish()
	if got := r.results(thread); len(got) != 1 || !contains(got[0].Text, "after", "rejected by broken") {
		t.Errorf("results %+v", got)
	}
	did.has(t, "begin", "begin", "awake")
}

// TestARetriedStepThatFailsIsAskedAbout has a step whose effect is lost, and whose retry fails. The
// failure must not be recorded as the result of the step.
func TestARetriedStepThatFailsIsAskedAbout(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.ctx)
	attempts := 0
	r.waiting(agent.LostRetry, func(ctx context.Context, _ *agent.Invocation) (string, error) {
		text, err := agent.Do(ctx, "pay", func(ctx context.Context) (string, error) {
			if attempts++; attempts == 1 {
				cancel()
				return "", ctx.Err()
			}
			return "", fmt.Errorf("the bank is closed")
		})
		return text, err
	})
	_, err := r.agent.Run(ctx, agent.Input{Thread: thread, Prompt: callWork})
	r.wants(err, segno.KindCancelled)
	q := r.waits(agent.Input{}, segno.ReasonUnknown)
	if !contains(q.Question, "the bank is closed") {
		t.Errorf("it asks %q", q.Question)
	}
	r.finish(respond(q, "it was paid"))
	r.answers("it was paid")
}

// TestACallThatIsCancelledBeforeItWakesIsNotLost cancels a run between the waking of two calls. The
// second one did not begin, so its wait has ended for the next run, and no person is asked.
func TestACallThatIsCancelledBeforeItWakesIsNotLost(t *testing.T) {
	eachStore(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		keys := map[string]bool{}
		c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
			agent.Sleep(ctx, time.Hour)
			keys[inv.Key] = true
			cancel()
			return "awake", nil
		})
		r.with(func(c *agent.Config) { c.Parallel = 1 })
		if all := r.prompt(callWork + " ; " + callWork); len(all[len(all)-1].Interrupts) != 2 {
			t.Fatalf("the run ends with %+v", all[len(all)-1])
		}
		asked := map[string]bool{}
		for _, i := range r.open(thread) {
			asked[i.CallKey] = true
		}
		c.advance(time.Hour)
		_, err := r.agent.Run(ctx, agent.Input{Thread: thread})
		r.wants(err, segno.KindCancelled)
		r.restart()
		r.finish()
		r.answers("awake", "awake")
		if len(keys) != 2 || !maps.Equal(keys, asked) {
			t.Errorf("the calls have the keys %v, and waited with %v", keys, asked)
		}
	})
}

// TestAStepThatPanicsHasFailed has a step that panics. After a wait it does not run again.
func TestAStepThatPanicsHasFailed(t *testing.T) {
	r := newRig(t)
	var did diary
	c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (text string, err error) {
		func() {
			defer func() { _ = recover() }()
			_, err = agent.Do(ctx, "order", func(context.Context) (int, error) {
				did.add("order")
				panic("no stock")
			})
		}()
		_, _ = agent.Do(ctx, "note", func(context.Context) (int, error) { did.add("note"); return 0, nil })
		agent.Sleep(ctx, time.Hour)
		return fmt.Sprint(err), nil
	})
	r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
	c.advance(time.Hour)
	r.finish()
	r.answers("order panicked: no stock")
	did.has(t, "order", "note")
}

// TestAForkAfterASleepHasItsOwnKey forks a thread when the sleep of a call has ended and the call has not run since. Both threads
// run the call, each with its own key.
func TestAForkAfterASleepHasItsOwnKey(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	keys := map[string]bool{}
	c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
		agent.Sleep(ctx, time.Hour)
		keys[inv.Key] = true
		cancel()
		return "awake", nil
	})
	r.with(func(c *agent.Config) { c.Parallel = 1 })
	r.prompt(callWork + " ; " + callWork)
	c.advance(time.Hour)
	_, err := r.agent.Run(ctx, agent.Input{Thread: thread})
	r.wants(err, segno.KindCancelled)
	at, err := r.agent.Status(r.ctx, thread)
	r.ok(err)
	_, err = r.agent.Fork(r.ctx, at.Head, "fork")
	r.ok(err)
	for _, id := range []string{"fork", thread} {
		r.one(r.run(agent.Input{Thread: id}), agent.EventDone)
	}
	if len(keys) != 3 {
		t.Errorf("the calls have %d keys, want one for the first call and one for the second call of each thread", len(keys))
	}
}
