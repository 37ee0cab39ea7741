package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// diary records what the code of a tool does.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) has(t interface {
	Helper()
	Errorf(string, ...any)
}, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("the tool did %q, want %q", d.lines, want)
	}
}

type noArgs struct{}

// waiting gives the rig's agent a clock and a tool "work" that runs a function.
func (r *rig) waiting(onLost agent.OnLost, work func(ctx context.Context, inv *agent.Invocation) (string, error)) *clock {
	c := newClock()
	r.with(func(config *agent.Config) {
		config.Now = c.Now
		config.Tools = append(slices.Clone(config.Tools), agent.NewTool("work", "works", onLost, func(ctx context.Context, inv *agent.Invocation, _ noArgs) (string, error) {
			return work(ctx, inv)
		}))
	})
	return c
}

const callWork = "call work {}"

// waits runs the thread and checks that the run ends with one wait.
func (r *rig) waits(in agent.Input, reason segno.Reason) segno.Interrupt {
	r.Helper()
	all := r.run(in)
	last := all[len(all)-1]
	if last.Kind != agent.EventInterrupted || len(last.Interrupts) != 1 || last.Interrupts[0].Reason != reason {
		r.Fatalf("the run ends with %s %+v, want one wait for a %s", last.Kind, last.Interrupts, reason)
	}
	return last.Interrupts[0]
}

func TestAToolSleepsWithoutItsProcess(t *testing.T) {
	eachStore(t, func(r *rig) {
		var did diary
		keys := map[string]bool{}
		c := r.waiting(agent.LostAsk, func(ctx context.Context, inv *agent.Invocation) (string, error) {
			did.add("begin")
			keys[inv.Key] = true
			n, err := agent.Do(ctx, "order", func(context.Context) (int, error) {
				did.add("order")
				return 17, nil
			})
			if err != nil {
				return "", err
			}
			agent.Sleep(ctx, 72*time.Hour)
			did.add("deliver")
			return fmt.Sprint("order ", n), nil
		})
		i := r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
		if want := c.Now().Add(72 * time.Hour); !i.Wake.Equal(want) {
			t.Errorf("it wakes at %s, want %s", i.Wake, want)
		}
		r.restart()
		if s, err := r.agent.Status(r.ctx, thread); err != nil || s.Phase != agent.PhaseWaiting || !s.Wake.Equal(i.Wake) {
			t.Errorf("status %+v %v", s, err)
		}
		for q, err := range r.agent.Inbox(r.ctx, "") {
			t.Errorf("the inbox has %+v %v", q, err)
		}
		c.advance(72*time.Hour - time.Second)
		again := r.waits(agent.Input{}, segno.ReasonSleep)
		if again.ID != i.ID {
			t.Errorf("the sleep begins again: %+v", again)
		}
		did.has(t, "begin", "order")
		c.advance(time.Second)
		r.restart()
		r.finish()
		did.has(t, "begin", "order", "begin", "deliver")
		r.answers("order 17")
		if len(keys) != 1 {
			t.Errorf("the call has the keys %v", keys)
		}
	})
}

func TestAToolAsksAPerson(t *testing.T) {
	eachStore(t, func(r *rig) {
		work := func(ctx context.Context, _ *agent.Invocation) (string, error) {
			a, err := agent.Interrupt(ctx, agent.Ask{Text: "which size?", Choices: []string{"small", "large"}})
			if err != nil {
				return "", err
			}
			b, err := agent.Interrupt(ctx, agent.Ask{Text: "how many?", Schema: json.RawMessage(`{"type":"integer","minimum":1}`)})
			if err != nil {
				return "", err
			}
			var n int
			if err := b.Decode(&n); err != nil {
				return "", err
			}
			return fmt.Sprintf("%d × %s for %s", n, a.Text, a.Actor), nil
		}
		r.waiting(agent.LostAsk, work)
		first := r.waits(agent.Input{Prompt: callWork}, segno.ReasonQuestion)
		r.restart()
		var inbox []agent.Question
		for q, err := range r.agent.Inbox(r.ctx, "") {
			r.ok(err)
			inbox = append(inbox, q)
		}
		if len(inbox) != 1 || inbox[0].Interrupt.Question != "which size?" {
			t.Errorf("the inbox has %+v", inbox)
		}
		r.wants(r.agent.Decide(r.ctx, thread, respond(first, "huge")), segno.KindInvalid, "huge")
		r.wants(r.agent.Decide(r.ctx, thread, approve(first)), segno.KindRefused, "approve")
		d := respond(first, "large")
		d.Actor = "ann"
		r.ok(r.agent.Decide(r.ctx, thread, d))
		second := r.waits(agent.Input{}, segno.ReasonQuestion)
		r.refused(decisions(respond(second, "many")), segno.KindInvalid, "schema")
		r.refused(decisions(respond(second, "0")), segno.KindInvalid, "schema")
		r.finish(respond(second, "3"))
		r.answers("3 × large for ann")
	})
}

func TestAQuestionOfAToolIsRejectedOrNobodyReplies(t *testing.T) {
	r := newRig(t)
	var got []error
	c := r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
		got = nil
		for range 2 {
			_, err := agent.Interrupt(ctx, agent.Ask{Text: "may I?"}, agent.Within(time.Hour))
			got = append(got, err)
		}
		return "done", nil
	})
	first := r.waits(agent.Input{Prompt: callWork}, segno.ReasonQuestion)
	second := r.waits(decisions(reject(first, "too risky")), segno.ReasonQuestion)
	r.wants(r.agent.Decide(r.ctx, thread, segno.Decision{Interrupt: second.ID, Kind: segno.Wake}), segno.KindRefused, "until")
	c.advance(time.Hour)
	r.finish()
	var rejected *agent.RejectedError
	if len(got) != 2 || !errors.As(got[0], &rejected) || rejected.Text != "too risky" || !errors.Is(got[1], agent.ErrNoReply) {
		t.Errorf("the waits end with %v", got)
	}
}

func TestASignalEndsOneWait(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.waiting(agent.LostRetry, func(ctx context.Context, _ *agent.Invocation) (string, error) {
			var all []string
			for range 3 {
				s, err := agent.Await(ctx, "paid")
				if err != nil {
					return "", err
				}
				all = append(all, s.Text)
			}
			return strings.Join(all, " "), nil
		})
		signal := func(name, key string, value any) {
			t.Helper()
			for range 2 { // a caller may repeat it
				r.ok(r.agent.Signal(r.ctx, thread, name, key, value))
			}
		}
		r.prompt("say hello")
		signal("paid", "1", 10) // before a call waits
		signal("shipped", "2", "no")
		r.waits(agent.Input{Prompt: callWork}, segno.ReasonSignal)
		r.restart()
		signal("paid", "3", 20)
		r.waits(agent.Input{}, segno.ReasonSignal)
		r.wants(r.agent.Signal(r.ctx, thread, "paid", "3", 21), segno.KindConflict, "3")
		signal("paid", "4", 30)
		signal("paid", "5", 40)
		r.finish()
		r.answers("10 20 30")
		r.wants(r.agent.Signal(r.ctx, "nothing", "paid", "1", 1), segno.KindNotFound)
		r.wants(r.agent.Signal(r.ctx, thread, "paid", "", 1), segno.KindInvalid)
		r.wants(r.agent.Signal(r.ctx, thread, "", "6", 1), segno.KindInvalid)
	})
}

func TestAChildThreadAnswersACall(t *testing.T) {
	for _, here := range []bool{true, false} {
		t.Run(fmt.Sprint("in this process: ", here), func(t *testing.T) {
			r := newRig(t)
			r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
				a, err := agent.Child(ctx, segno.Child{Agent: "helper", Prompt: "say I helped"})
				return a.Text, err
			})
			helper := agent.New(agent.Config{Name: "helper", Model: r.config.Model, Store: r.store})
			if here {
				r.with(func(c *agent.Config) { c.Agents = map[string]*agent.Agent{"helper": helper} })
				r.one(r.prompt(callWork), agent.EventDone)
			} else {
				i := r.waits(agent.Input{Prompt: callWork}, segno.ReasonThread)
				out, err := helper.Run(r.ctx, agent.Input{Thread: string(i.Child.Thread), Prompt: i.Child.Prompt, Key: i.Child.Key})
				r.ok(err)
				r.finish(respond(i, out.Text))
			}
			r.answers("I helped")
		})
	}
}

// TestThreadsThatWaitForEachOther has a call that prompts another thread, in which a call prompts the first one. The second call is
// rejected, so both turns end.
func TestThreadsThatWaitForEachOther(t *testing.T) {
	r := newRig(t)
	ask := func(agentName, thread, prompt string) func(ctx context.Context, _ *agent.Invocation, _ noArgs) (string, error) {
		return func(ctx context.Context, _ *agent.Invocation, _ noArgs) (string, error) {
			a, err := agent.Child(ctx, segno.Child{Agent: agentName, Thread: segno.ThreadID(thread), Prompt: prompt})
			var rejected *agent.RejectedError
			if errors.As(err, &rejected) {
				return "not answered", nil
			}
			return a.Text, err
		}
	}
	agents := map[string]*agent.Agent{}
	back := agent.NewTool("back", "asks back", agent.LostAsk, ask("main", thread, "say hello"))
	agents["helper"] = agent.New(agent.Config{Name: "helper", Model: r.config.Model, Store: r.store, Tools: []agent.Tool{back}, Agents: agents})
	r.with(func(c *agent.Config) {
		c.Agents, c.Tools = agents, append(slices.Clone(c.Tools), agent.NewTool("work", "works", agent.LostAsk, ask("helper", "h", "call back {}")))
	})
	agents["main"] = r.agent
	r.one(r.prompt(callWork), agent.EventDone)
	r.answers("back: not answered")
}

// TestAChildThreadThatAnotherProgramChanges has a thread that gets a commit of another program while it
// runs. Its turn has not failed: the next run continues it.
func TestAChildThreadThatAnotherProgramChanges(t *testing.T) {
	r := newRig(t)
	races := true
	change := agent.NewTool("change", "changes its thread", agent.LostRerun, func(ctx context.Context, _ *agent.Invocation, _ noArgs) (string, error) {
		head, err := r.store.Head(ctx, "h")
		if err != nil || !races {
			return "changed", err
		}
		races = false
		_, err = r.store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "h", Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
			Entries: []segno.Entry{{Kind: segno.EntryNote, Name: "other", Body: []byte("1")}}})
		return "changed", err
	})
	helper := agent.New(agent.Config{Name: "helper", Model: r.config.Model, Store: r.store, Tools: []agent.Tool{change}})
	r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
		a, err := agent.Child(ctx, segno.Child{Agent: "helper", Thread: "h", Prompt: "call change {}"})
		return a.Text, err
	})
	r.with(func(c *agent.Config) { c.Agents = map[string]*agent.Agent{"helper": helper} })
	r.refused(agent.Input{Prompt: callWork}, segno.KindConflict)
	r.finish()
	r.answers("change: changed")
}

func TestAToolMustRepeatItsSteps(t *testing.T) {
	for name, second := range map[string]func(ctx context.Context){
		"another kind": func(ctx context.Context) { _, _ = agent.Await(ctx, "x") },
		"another name": func(ctx context.Context) {
			_, _ = agent.Do(ctx, "other", func(context.Context) (int, error) { return 1, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			changed := false
			var did diary
			first := func(ctx context.Context) {
				_, _ = agent.Do(ctx, "one", func(context.Context) (int, error) { did.add("one"); return 1, nil })
			}
			c := r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
				if changed {
					second(ctx)
				} else {
					first(ctx)
				}
				agent.Sleep(ctx, time.Hour)
				return "done", nil
			})
			r.waits(agent.Input{Prompt: callWork}, segno.ReasonSleep)
			c.advance(time.Hour)
			changed = true
			r.refused(agent.Input{}, segno.KindRefused, "step 1", `"one"`)
			changed = false
			r.finish() // nothing was lost
			did.has(t, "one")
		})
	}
}
