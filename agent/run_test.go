package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/saver"
)

func TestAPromptOverATurnThatWasBrokenOff(t *testing.T) {
	eachStore(t, func(r *rig) {
		down := &script{answer: func(int, agent.Request, func(agent.Chunk)) (agent.Reply, error) {
			return agent.Reply{}, errors.New("the line is dead")
		}}
		r.prompt("write a.txt: one")
		r.with(func(c *agent.Config) { c.Model = down })
		if _, err := r.try(agent.Input{Prompt: "write b.txt: two"}); err == nil {
			r.Fatal("it succeeds")
		}
		r.with(func(c *agent.Config) { c.Model = offline.New() })
		r.restart()
		if done := r.one(r.prompt("ls"), agent.EventDone); done.Turn != 3 || contains(done.Text, "b.txt") {
			r.Errorf("turn %d says %q", done.Turn, done.Text)
		}
		var interrupted []int
		for _, c := range r.heads(thread) {
			if c.Interrupted {
				interrupted = append(interrupted, c.Turn)
			}
		}
		if len(interrupted) != 1 || interrupted[0] != 2 {
			r.Errorf("broken off are turns %v, want the second", interrupted)
		}
		dones := r.replayed(thread, 0).of(agent.EventDone)
		if len(dones) != 2 {
			r.Errorf("%d turns are told to be done, want 2", len(dones))
		}
		r.stands(r.undo(2), 1, 4, 0, 1)
	})
}

func TestAnswerMayDecideSomeQuestions(t *testing.T) {
	r := newRig(t).asking().with(func(c *agent.Config) {
		c.Answer = func(_ context.Context, open []segno.Interrupt) ([]segno.Decision, error) {
			if len(open) < 3 {
				return nil, nil // enough for today
			}
			return []segno.Decision{approve(open[1])}, nil
		}
	})
	all := r.prompt(`call send_email {"to":"a"} ; call send_email {"to":"b"} ; call send_email {"to":"c"}`)
	if all[len(all)-1].Kind != agent.EventInterrupted {
		t.Errorf("the run ends with %v", all.kinds())
	}
	r.sent("b")
	if n := len(r.open(thread)); n != 2 {
		t.Errorf("%d questions wait, want 2", n)
	}
}

func TestFailingAnswerKeepsQuestion(t *testing.T) {
	for name, answer := range map[string]func(segno.Interrupt) ([]segno.Decision, error){
		"an error": func(segno.Interrupt) ([]segno.Decision, error) { return nil, errors.New("the terminal is gone") },
		"no such id": func(segno.Interrupt) ([]segno.Decision, error) {
			return []segno.Decision{{Interrupt: "x", Kind: segno.Approve}}, nil
		},
		"no such kind": func(q segno.Interrupt) ([]segno.Decision, error) {
			return []segno.Decision{{Interrupt: q.ID, Kind: "so-so"}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).asking().with(func(c *agent.Config) {
				c.Answer = func(_ context.Context, open []segno.Interrupt) ([]segno.Decision, error) { return answer(open[0]) }
			})
			if _, err := r.try(agent.Input{Prompt: askMail}); err == nil {
				t.Error("the run succeeds")
			}
			r.sent()
			q := r.question()
			r.with(func(c *agent.Config) { c.Answer = nil })
			r.finish(approve(q))
			r.sent("bob")
		})
	}
}

func TestAskingEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := newRig(t).asking().with(func(c *agent.Config) {
		c.Answer = func(ctx context.Context, _ []segno.Interrupt) ([]segno.Decision, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	_, err := r.agent.Run(ctx, agent.Input{Thread: thread, Prompt: askMail})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the run ends with %v", err)
	}
	r.question()
}

func TestTurnReportsUsage(t *testing.T) {
	model := replies(calls("1", "task", `{"agent":"own","prompt":"go"}`), says("done"))
	r := newRig(t).with(func(c *agent.Config) {
		c.Model, c.Subagents = model, []agent.Subagent{{Name: "own", Model: replies(says("yes"))}}
	})
	o, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "go"})
	r.ok(err)
	if want := (agent.Usage{Input: 9, Output: 15}); o.Usage != want {
		t.Errorf("it cost %+v, want %+v for three answers", o.Usage, want)
	}
	if o.Text != "done" || o.Saved != r.heads(thread)[0].ID {
		t.Errorf("it came to %+v; the head is %s", o, r.heads(thread)[0].ID)
	}
	if e := r.replayed(thread, 0).of(agent.EventStepFinish); len(e) != 2 || *e[0].Usage != (agent.Usage{Input: 3, Output: 5}) {
		t.Errorf("told again: %+v", e)
	}
}

func TestValuesReturnCopies(t *testing.T) {
	poke := agent.NewTool("poke", "changes what it read", agent.LostRerun, func(_ context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
		mine := map[string][]int{"n": {1, 2, 3}}
		if err := inv.State.Set("poked", mine); err != nil {
			return "", err
		}
		mine["n"][0] = 99
		var got map[string][]int
		if _, err := inv.State.Get("poked", &got); err != nil {
			return "", err
		}
		got["n"][1] = 99
		var raw json.RawMessage
		if _, err := inv.State.Get("poked", &raw); err != nil {
			return "", err
		}
		clear(raw)
		err := inv.State.Update("poked", func(old json.RawMessage) (any, error) {
			clear(old)
			return nil, errors.New("changed my mind")
		})
		if err == nil {
			return "", errors.New("the error of an update is gone")
		}
		return "poked", nil
	})
	eachStore(t, func(r *rig) {
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, poke) })
		r.prompt("call poke {}")
		r.answers("poked")
		saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
		r.ok(err)
		if got := string(saved.State["poked"]); got != `{"n":[1,2,3]}` {
			r.Errorf("the state holds %s", got)
		}
	})
}

func TestAValueThatIsTakenAwayIsGone(t *testing.T) {
	eachStore(t, func(r *rig) {
		set := agent.NewTool("set", "sets", agent.LostRerun, func(_ context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
			return "set", inv.State.Set("x", 1)
		})
		unset := agent.NewTool("unset", "takes away", agent.LostRerun, func(_ context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
			inv.State.Delete("x")
			return "unset", nil
		})
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, set, unset) })
		r.prompt("call set {}\ncall unset {}")
		has := func() bool {
			saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
			r.ok(err)
			_, ok := saved.State["x"]
			return ok
		}
		r.restart()
		if has() {
			r.Error("it is still there")
		}
		for _, c := range r.heads(thread) {
			if c.Step == 1 && c.Kind == segno.CheckpointStep {
				r.restore(c.ID)
			}
		}
		if !has() {
			r.Error("before it was taken away it is not there")
		}
	})
}

func TestAStateAStepDidNotReachIsNotSaved(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	r.watched(func(_ int, c segno.Commit) error {
		for _, e := range c.Entries {
			if e.Kind == segno.EntryState {
				return errDisk
			}
		}
		return nil
	}, nil)
	if _, err := r.try(agent.Input{Prompt: "write a.txt: one"}); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	r.restart()
	if w, err := r.agent.Status(r.ctx, thread); err != nil || w.Files != 0 || len(r.results(thread)) != 0 {
		t.Errorf("half a step is there: %+v, %v, %v", w, r.results(thread), err)
	}
	r.finish()
	if w, err := r.agent.Status(r.ctx, thread); err != nil || w.Files != 1 {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestSoManyCallsOfAStepAreMadeAtOnce(t *testing.T) {
	for parallel, want := range map[int]int{0: 16, 1: 1, 3: 3} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			now, most := 0, 0
			busy := agent.NewTool("busy", "takes a while", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (string, error) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				now--
				return "done", nil
			})
			var many []string
			for range 20 {
				many = append(many, "", "busy", "{}")
			}
			model := replies(calls(many...), says("done"))
			r := newRig(t).with(func(c *agent.Config) {
				c.Model, c.Tools, c.Parallel, c.MaxTokens = model, []agent.Tool{busy}, parallel, 77
			})
			r.prompt("go")
			if most != want {
				t.Errorf("Parallel %d: %d calls at once, want %d", parallel, most, want)
			}
			if n := len(r.results(thread)); n != 20 {
				t.Errorf("%d results, want 20", n)
			}
			if q := model.requests()[0]; q.MaxTokens != 77 {
				t.Errorf("the model may answer with %d tokens", q.MaxTokens)
			}
		})
	}
}

func TestAnAgentThatCannotRunSaysWhy(t *testing.T) {
	for why, change := range map[string]func(*agent.Config){
		"model":      func(c *agent.Config) { c.Model = nil },
		"send_email": func(c *agent.Config) { c.Tools = append(c.Tools, c.Tools[len(c.Tools)-1]) },
	} {
		r := newRig(t).with(change)
		r.refused(agent.Input{Prompt: "say hi"}, segno.KindInvalid, why)
		if len(r.heads(thread)) > 0 {
			t.Errorf("%s: it made a thread", why)
		}
	}
}
