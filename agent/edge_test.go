package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
)

// TestWhereAThreadStandsCanBeForked restores a thread to a question, which is asked again
// there, and forks it at the head that the status reports.
func TestWhereAThreadStandsCanBeForked(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail)
		asked := r.heads(thread)[0].ID
		r.finish(approve(r.question()))
		where, err := r.agent.Restore(r.ctx, thread, asked)
		r.ok(err)
		for i, at := range []segno.CommitID{where.Head, asked} {
			f, err := r.agent.Fork(r.ctx, at, fmt.Sprint("f", i))
			r.ok(err)
			if len(f.Interrupts) != 1 {
				r.Errorf("%d questions in the fork", len(f.Interrupts))
			}
			if _, err := r.agent.Restore(r.ctx, fmt.Sprint("f", i), f.Head); err != nil {
				r.Errorf("restore where the fork stands: %v", err)
			}
		}
	})
}

// TestLateAnswerIsAskedAgain has a person take longer to answer than the question
// is valid.
func TestLateAnswerIsAskedAgain(t *testing.T) {
	now, asked := time.Unix(1e9, 0), 0
	r := newRig(t).with(func(c *agent.Config) {
		c.Now = func() time.Time { return now }
		c.Approve = func(context.Context, agent.Call) *agent.Approval { return &agent.Approval{Within: time.Minute} }
		c.Answer = func(_ context.Context, open []segno.Interrupt) ([]segno.Decision, error) {
			if asked++; asked == 1 {
				now = now.Add(time.Hour)
			}
			return []segno.Decision{approve(open[0])}, nil
		}
	})
	r.one(r.prompt(askMail), agent.EventDone)
	r.sent("bob")
	if asked != 2 {
		t.Errorf("it was asked %d times", asked)
	}
}

// TestALateAnswerRenamesNoOtherQuestion answers two questions, one of them too late.
func TestALateAnswerRenamesNoOtherQuestion(t *testing.T) {
	now := time.Unix(1e9, 0)
	var ids [][]string
	r := newRig(t).with(func(c *agent.Config) {
		c.Now = func() time.Time { return now }
		c.Model = replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`), says("done"))
		c.Approve = func(_ context.Context, call agent.Call) *agent.Approval {
			if call.ID == "1" {
				return &agent.Approval{Within: time.Minute}
			}
			return &agent.Approval{}
		}
		c.Answer = func(_ context.Context, open []segno.Interrupt) ([]segno.Decision, error) {
			var asked []string
			for _, i := range open {
				asked = append(asked, i.ID)
			}
			ids = append(ids, asked)
			if len(ids) == 1 {
				now = now.Add(time.Hour)
				return []segno.Decision{approve(open[0])}, nil
			}
			return []segno.Decision{approve(open[0]), approve(open[1])}, nil
		}
	})
	r.one(r.prompt("go"), agent.EventDone)
	r.sent("a", "b")
	if len(ids) != 2 || slices.Contains(ids[1], ids[0][0]) || !slices.Contains(ids[1], ids[0][1]) {
		t.Errorf("asked %v", ids)
	}
}

type panickingModel struct{}

func (panickingModel) Name() string { return "test/panickingModel" }

func (panickingModel) Generate(context.Context, agent.Request) iter.Seq2[agent.Chunk, error] {
	panic("a bug of the adapter")
}

// exitingModel is a model that ends its goroutine, as t.Fatal does.
type exitingModel struct{ panickingModel }

func (exitingModel) Generate(context.Context, agent.Request) iter.Seq2[agent.Chunk, error] {
	runtime.Goexit()
	return nil
}

func TestGoexitOfModelEndsCaller(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) { c.Model = exitingModel{} })
	done, went := make(chan struct{}), false
	go func() {
		defer close(done)
		_, _ = r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "go"})
		went = true
	}()
	<-done
	if went {
		t.Error("the caller goes on")
	}
}

func TestCallerRecoversPanicOfModel(t *testing.T) {
	r := newRig(t)
	r.prompt("say hi")
	func() {
		defer func() {
			if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "a bug of the adapter") {
				t.Errorf("recovered %v", v)
			}
		}()
		r.with(func(c *agent.Config) { c.Model = panickingModel{} })
		r.prompt("go")
	}()
	r.with(func(c *agent.Config) { c.Model = replies(says("on")) })
	r.finish()
}

func TestOddNumbersOfASummaryDoNoHarm(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) { c.Summarize = agent.Summarize{Above: 1, Keep: -1} })
	r.prompt("say hi")
	r.prompt("say hi again")
}

func TestMoveOfMissingThreadIsNotFound(t *testing.T) {
	r := newRig(t)
	_, err := r.agent.Undo(r.ctx, "none", 1)
	r.wants(err, segno.KindNotFound, "the thread does not exist")
	if hint := segno.HintOf(err); hint != "" {
		t.Errorf("the hint is %q", hint)
	}
}

// TestAPromptWaitsForEveryDecision decides one of two calls and sends a prompt. Nothing is
// done, and both calls can still be decided.
func TestAPromptWaitsForEveryDecision(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().with(func(c *agent.Config) {
			c.Model = replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`), says("done"), says("hi"))
		})
		r.prompt("go")
		open := r.open(thread)
		r.refused(agent.Input{Prompt: "over", Decide: []segno.Decision{approve(open[0])}}, segno.KindRefused, "waits for a decision")
		r.sent()
		r.run(agent.Input{Prompt: "over", Decide: []segno.Decision{approve(open[0]), approve(open[1])}})
		r.sent("a", "b")
	})
}

// TestARunThatIsNotSavedCannotWait runs without a store: no later run could answer.
func TestARunThatIsNotSavedCannotWait(t *testing.T) {
	r := newRig(t).asking()
	_, err := r.agent.Run(r.ctx, agent.Input{Prompt: askMail})
	r.wants(err, segno.KindRefused, "requires approval", "not saved")
	_, err = agent.New(agent.Config{Model: r.config.Model, Tools: r.config.Tools, Approve: r.config.Approve}).Run(r.ctx, agent.Input{Thread: "t", Prompt: askMail})
	r.wants(err, segno.KindRefused, "requires approval", "not saved")
	r.sent()
}

func TestAModelsReplyIsNotWrittenTo(t *testing.T) {
	reply := calls("1", "ls", ` {  }`)
	reply.Message.Parts = append([]agent.Part{{Result: &agent.Result{Text: "made up"}}}, reply.Message.Parts...)
	r := newRig(t).with(func(c *agent.Config) { c.Model = replies(reply, reply, says("done")) })
	r.prompt("go")
	if p := reply.Message.Parts; p[0].Result == nil || p[1].Call.ID != "1" || string(p[1].Call.Args) != ` {  }` {
		t.Errorf("the reply is now %+v", p)
	}
}

// TestAToolsResultAndItsPartsAreKeptApart has a tool return a pointer to a result, with
// long texts in its parts.
func TestAToolsResultAndItsPartsAreKeptApart(t *testing.T) {
	res := &agent.Result{Text: "short", Error: true, Parts: []agent.Part{{Text: strings.Repeat("x", 5000)}}}
	r := newRig(t).with(func(c *agent.Config) {
		c.Model, c.Evict = replies(calls("1", "odd", `{}`), says("ok")), 1000
		c.Tools = []agent.Tool{agent.NewTool("odd", "", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (*agent.Result, error) { return res, nil })}
	})
	r.prompt("go")
	got := r.results(thread)[0]
	if got.Text != "short" || !got.Error || len(got.Parts) != 1 || len(got.Parts[0].Text) > 1000 || len(res.Parts[0].Text) != 5000 {
		t.Errorf("the model was told %+v", got)
	}
	saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
	r.ok(err)
	var kept struct{ Text string }
	if err := json.Unmarshal(saved.State["files/large_tool_results/odd_1/1.txt"], &kept); err != nil || len(kept.Text) != 5000 {
		t.Errorf("%d bytes are kept, %v", len(kept.Text), err)
	}
}

// TestTwoLostCallsAreRevertedInOrder has two calls change one value. Both are cancelled
// at the same time.
func TestTwoLostCallsAreRevertedInOrder(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{}, 2)
	count := agent.NewTool("count", "", agent.LostRerun, func(in context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
		err := inv.State.Update("n", func(old json.RawMessage) (any, error) {
			var n int
			if old != nil {
				if err := json.Unmarshal(old, &n); err != nil {
					return nil, err
				}
			}
			return n + 1, nil
		})
		if ctx.Err() != nil || err != nil {
			return "counted", err
		}
		if begun <- struct{}{}; len(begun) == 2 {
			cancel()
		}
		<-in.Done()
		return "", in.Err()
	})
	r := newRig(t).with(func(c *agent.Config) {
		c.Model, c.Tools = replies(calls("1", "count", `{}`, "2", "count", `{}`), says("done")), []agent.Tool{count}
	})
	if _, err := r.agent.Run(ctx, agent.Input{Thread: thread, Prompt: "go"}); segno.KindOf(err) != segno.KindCancelled {
		t.Fatalf("it ends with %v", err)
	}
	r.finish()
	saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
	r.ok(err)
	if string(saved.State["n"]) != "2" {
		t.Errorf("it counted to %s", saved.State["n"])
	}
}

// TestAnEmptyAnswerAfterToolsIsAnAnswer has a model answer nothing once its calls are done.
func TestAnEmptyAnswerAfterToolsIsAnAnswer(t *testing.T) {
	for name, last := range map[string]agent.Reply{
		"no parts":    {Stop: agent.StopEnd},
		"empty text":  says(""),
		"no reason":   {},
		"a thought":   {Stop: agent.StopEnd, Message: agent.Message{Parts: []agent.Part{{Thinking: &agent.Thinking{Text: "done"}}}}},
		"only spaces": says(" \n"),
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				r.with(func(c *agent.Config) {
					c.Model = replies(calls("1", "send_email", `{"to":"bob"}`), last, says("later"))
				})
				r.one(r.prompt("go"), agent.EventDone)
				r.restart()
				out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
				r.ok(err)
				if len(out.Interrupts) > 0 || out.Saved == "" {
					r.Errorf("the outcome is %+v", out)
				}
				r.phase(agent.PhaseDone, 0)
				if e := r.one(r.prompt("and now?"), agent.EventDone); e.Text != "later" || e.Turn != 2 {
					r.Errorf("after it comes %+v", e)
				}
				r.sent("bob")
			})
		})
	}
}
