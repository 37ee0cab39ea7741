package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
)

// cutting gives the agent a mail tool that cancels the run in its first call and ignores its own context.
func (r *rig) cutting(e agent.OnLost) (cut func(in agent.Input)) {
	ctx, cancel := context.WithCancel(r.ctx)
	send := r.mails.tool(e)
	whole := send.Run
	send.Run = func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		defer cancel()
		return whole(ctx, inv)
	}
	r.with(func(c *agent.Config) { c.Parallel, c.Tools = 1, []agent.Tool{send} })
	return func(in agent.Input) {
		in.Thread = thread
		if _, err := r.agent.Run(ctx, in); segno.KindOf(err) != segno.KindCancelled {
			r.Errorf("it ends with %v", err)
		}
	}
}

// TestACancelBeginsNoMoreCalls cancels a run in the first of three calls. The others
// are made once the run continues, and no question asks about them.
func TestACancelBeginsNoMoreCalls(t *testing.T) {
	for _, e := range []agent.OnLost{agent.LostRerun, agent.LostAsk, agent.LostRetry, agent.LostFail} {
		t.Run("effect "+string(e), func(t *testing.T) {
			eachStore(t, func(r *rig) {
				r.with(func(c *agent.Config) {
					c.Model = replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`, "3", "send_email", `{"to":"c"}`), says("done"))
				})
				r.cutting(e)(agent.Input{Prompt: "go"})
				r.sent("a")
				r.restart()
				r.finish()
				r.sent("a", "b", "c")
			})
		})
	}
}

// TestACancelKeepsAnApproval cancels a run before an approved call begins. The call
// is still approved afterwards.
func TestACancelKeepsAnApproval(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.with(func(c *agent.Config) {
			c.Model = replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`), says("done"))
			c.Approve = agent.RequireApproval("send_email")
		})
		cut := r.cutting(agent.LostAsk)
		r.prompt("go")
		open := r.open(thread)
		if len(open) != 2 {
			r.Fatalf("%d questions", len(open))
		}
		cut(agent.Input{Decide: []segno.Decision{approve(open[0]), edit(open[1], `{"to":"eve"}`)}})
		r.sent("a")
		r.restart()
		r.finish()
		r.sent("a", "eve")
		r.answers("sent to a", "(run with other arguments")
	})
}

// TestLostCallRevertsItsValues cancels a call that has changed the state, beside a call
// that succeeds. The cancelled call runs again and must find the state as it was before.
func TestLostCallRevertsItsValues(t *testing.T) {
	eachStore(t, func(r *rig) {
		var tries atomic.Int32
		ctx, cancel := context.WithCancel(r.ctx)
		other := make(chan struct{})
		r.with(func(c *agent.Config) {
			c.Model = replies(calls("1", "other", `{}`, "2", "count", `{}`), says("done"))
			c.Tools = []agent.Tool{
				agent.NewTool("other", "", agent.LostRerun, func(_ context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
					defer close(other)
					return "ok", inv.State.Set("other", 1)
				}),
				agent.NewTool("count", "", agent.LostRerun, func(ctx context.Context, inv *agent.Invocation, _ struct{}) (string, error) {
					for _, key := range []string{"n", "m"} {
						if err := inv.State.Update(key, func(old json.RawMessage) (any, error) { return string(old) + "x", nil }); err != nil {
							return "", err
						}
					}
					inv.State.Delete("m")
					if tries.Add(1) == 1 {
						<-other
						cancel()
						<-ctx.Done()
						return "", ctx.Err()
					}
					return "counted", nil
				})}
		})
		if _, err := r.agent.Run(ctx, agent.Input{Thread: thread, Prompt: "go"}); segno.KindOf(err) != segno.KindCancelled {
			r.Fatalf("it ends with %v", err)
		}
		r.finish()
		saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
		r.ok(err)
		if string(saved.State["n"]) != `"x"` || string(saved.State["other"]) != "1" || saved.State["m"] != nil {
			r.Errorf("the state is %s", saved.State)
		}
	})
}

func TestLostEditedCallKeepsEditedArguments(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) {
		c.Model = replies(calls("1", "send_email", `{"to":"bob"}`), says("done"))
		c.Approve = agent.RequireApproval("send_email")
	})
	ctx, cancel := context.WithCancel(r.ctx)
	send := r.mails.tool(agent.LostRetry)
	whole := send.Run
	send.Run = func(in context.Context, inv *agent.Invocation) (agent.Result, error) {
		if ctx.Err() == nil {
			cancel()
			<-in.Done()
			return agent.Result{}, in.Err()
		}
		return whole(in, inv)
	}
	r.with(func(c *agent.Config) { c.Tools = []agent.Tool{send} })
	r.prompt("go")
	if _, err := r.agent.Run(ctx, agent.Input{Thread: thread, Decide: []segno.Decision{edit(r.question(), `{"to":"eve"}`)}}); err == nil {
		t.Fatal("it was cancelled and succeeds")
	}
	r.finish()
	r.sent("eve")
	if res := r.results(thread)[0]; !strings.Contains(res.Text, "edited arguments") || !strings.Contains(res.Text, "eve") {
		t.Errorf("the model was told %q", res.Text)
	}
}

// TestTruncatedAnswerHasStopReason checks the reason to stop, in the run and in a replay.
func TestTruncatedAnswerHasStopReason(t *testing.T) {
	for _, stop := range []agent.Stop{agent.StopLength, agent.StopRefusal, agent.StopEnd} {
		reply := says("half a")
		reply.Stop = stop
		r := newRig(t).with(func(c *agent.Config) { c.Model = replies(reply) })
		o, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "go"})
		r.ok(err)
		want := stop
		if stop == agent.StopEnd {
			want = ""
		}
		again := r.replayed(thread, 0)
		if last := again[len(again)-1]; o.Stop != want || last.Kind != agent.EventDone || last.Stop != want || o.Text != "half a" {
			t.Errorf("%s: it stopped by %q, told again by %q", stop, o.Stop, last.Stop)
		}
	}
}

var errTooLong = errors.New("prompt is too long: 9 tokens > 8 maximum")

func TestTooLongRequestHasHint(t *testing.T) {
	broken := &script{answer: func(int, agent.Request, func(agent.Chunk)) (agent.Reply, error) {
		return agent.Reply{}, &agent.ModelError{Status: 400, Err: errTooLong}
	}}
	r := newRig(t).with(func(c *agent.Config) { c.Model = broken })
	err := r.refused(agent.Input{Prompt: "go"}, segno.KindInvalid, "too long")
	if hint := segno.HintOf(err); !strings.Contains(hint, "Summarize.Above") {
		t.Errorf("the hint is %q", hint)
	}
}

// TestAnApprovalThatWasNotUsedHoldsOnItsLine cancels a run before an approved call
// begins, makes the call later, and restores the earlier checkpoint. There the call may already have run.
func TestAnApprovalThatWasNotUsedHoldsOnItsLine(t *testing.T) {
	for name, back := range map[string]func(r *rig, to segno.CommitID) string{
		"restore": func(r *rig, to segno.CommitID) string {
			_, err := r.agent.Restore(r.ctx, thread, to)
			r.ok(err)
			return thread
		},
		"fork": func(r *rig, to segno.CommitID) string {
			_, err := r.agent.Fork(r.ctx, to, "f")
			r.ok(err)
			return "f"
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				r.with(func(c *agent.Config) {
					c.Model = replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`), says("done"))
					c.Approve = agent.RequireApproval("send_email")
				})
				cut := r.cutting(agent.LostAsk)
				r.prompt("go")
				open := r.open(thread)
				cut(agent.Input{Decide: []segno.Decision{approve(open[0]), approve(open[1])}})
				where, err := r.agent.Status(r.ctx, thread)
				r.ok(err)
				r.finish()
				r.sent("a", "b")
				at := back(r, where.Head)
				r.run(agent.Input{Thread: at})
				r.sent("a", "b")
				left := r.open(at)
				if len(left) != 1 || string(left[0].Args) != `{"to":"b"}` {
					r.Fatalf("it asks %+v", left)
				}
				r.run(agent.Input{Thread: at, Decide: []segno.Decision{approve(left[0])}})
				r.sent("a", "b", "b")
			})
		})
	}
}

// TestTheLastDecisionAboutACallCounts cancels a run before an approved call begins, restores the
// checkpoint with the unused approval, and decides the question that is then asked again. The second
// decision counts, also if the clock stood still or was set back between the decisions.
func TestTheLastDecisionAboutACallCounts(t *testing.T) {
	no := func(i segno.Interrupt) segno.Decision { return reject(i, "no") }
	toEve := func(i segno.Interrupt) segno.Decision { return edit(i, `{"to":"eve"}`) }
	type decide func(segno.Interrupt) segno.Decision
	for _, c := range []struct {
		name          string
		first, second decide
		sent          []string
	}{
		{"approved, then rejected", approve, no, []string{"a"}},
		{"edited, then rejected", toEve, no, []string{"a"}},
		{"edited, then approved", toEve, approve, []string{"a", "b"}},
		{"approved, then edited", approve, toEve, []string{"a", "eve"}},
	} {
		for _, passed := range []time.Duration{time.Hour, 0, -time.Hour} {
			t.Run(c.name+" after "+passed.String(), func(t *testing.T) {
				eachStore(t, func(r *rig) {
					now := time.Unix(1e9, 0)
					r.with(func(c *agent.Config) {
						c.Model = replies(calls("1", "send_email", `{"to":"a"}`, "2", "send_email", `{"to":"b"}`), says("done"))
						c.Approve = agent.RequireApproval("send_email")
						c.Now = func() time.Time { return now }
					})
					cut := r.cutting(agent.LostAsk)
					r.prompt("go")
					open := r.open(thread)
					cut(decisions(approve(open[0]), c.first(open[1])))
					at := r.heads(thread)[0].ID
					r.undo(1)
					r.restore(at)
					now = now.Add(passed)
					r.finish(c.second(r.question()))
					r.sent(c.sent...)
				})
			})
		}
	}
}
