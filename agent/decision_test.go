package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

func contains(s string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// replaced checks that an answer to a question that was asked again under another id has no
// effect.
func (r *rig) replaced(id string, old segno.Interrupt) {
	r.Helper()
	_, err := r.try(agent.Input{Thread: id, Decide: []segno.Decision{approve(old)}})
	if kind := segno.KindOf(err); err == nil || kind != segno.KindNotFound && kind != segno.KindConflict {
		r.Errorf("an answer to the old question gets %v", err)
	}
}

func decisions(ds ...segno.Decision) agent.Input { return agent.Input{Decide: ds} }

func TestADecisionThatIsNoneIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(q segno.Interrupt) segno.Decision
		kind segno.Kind
	}{
		{"about an unknown id", func(segno.Interrupt) segno.Decision {
			return segno.Decision{Interrupt: "nobody-asked", Kind: segno.Approve}
		}, segno.KindNotFound},
		{"about no id", func(segno.Interrupt) segno.Decision { return segno.Decision{Kind: segno.Approve} }, segno.KindNotFound},
		{"edit without arguments", func(q segno.Interrupt) segno.Decision { return segno.Decision{Interrupt: q.ID, Kind: segno.Edit} }, segno.KindInvalid},
		{"edit with half an argument", func(q segno.Interrupt) segno.Decision { return edit(q, `{"to":`) }, segno.KindInvalid},
		{"approve with arguments", func(q segno.Interrupt) segno.Decision {
			return segno.Decision{Interrupt: q.ID, Kind: segno.Approve, Args: json.RawMessage(`{"to":"eve"}`)}
		}, segno.KindInvalid},
		{"a kind that is none", func(q segno.Interrupt) segno.Decision { return segno.Decision{Interrupt: q.ID, Kind: "sure"} }, segno.KindRefused},
		{"no kind", func(q segno.Interrupt) segno.Decision { return segno.Decision{Interrupt: q.ID} }, segno.KindRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t).asking()
			r.prompt(askMail)
			q := r.question()
			r.refused(decisions(c.make(q)), c.kind)
			r.sent()
			if r.question().ID != q.ID {
				t.Error("the question is not the same any more")
			}
			r.finish(approve(q))
			r.sent("bob")
		})
	}
}

func TestADecisionThatIsNotAllowedIsRefused(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) {
		c.Approve = func(_ context.Context, _ agent.Call) *agent.Approval {
			return &agent.Approval{Allowed: []segno.DecisionKind{segno.Approve, segno.Reject}}
		}
	})
	r.prompt(askMail)
	q := r.question()
	r.refused(decisions(edit(q, `{"to":"eve"}`)), segno.KindRefused, "edit")
	r.refused(decisions(respond(q, "done")), segno.KindRefused, "respond")
	r.finish(reject(q, ""))
	r.sent()
}

func TestAWrongDecisionAmongGoodOnesDecidesNothing(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(`call send_email {"to":"a"} ; call send_email {"to":"b"}`)
	open := r.open(thread)
	r.refused(decisions(approve(open[0]), segno.Decision{Interrupt: "unknown", Kind: segno.Approve}), segno.KindNotFound)
	r.refused(decisions(approve(open[0]), reject(open[0], "")), segno.KindConflict)
	r.sent()
	if n := len(r.open(thread)); n != 2 {
		t.Errorf("%d questions wait, want both", n)
	}
}

func TestADecisionOfAnotherThreadIsRefused(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail)
		r.run(agent.Input{Thread: "other", Prompt: `call send_email {"to":"eve"}`})
		theirs := r.open("other")[0]
		r.refused(decisions(approve(theirs)), segno.KindNotFound, theirs.ID)
		r.sent()
		r.finish(approve(r.question()))
		r.sent("bob")
		if len(r.open("other")) != 1 {
			r.Error("the other thread's question was answered, too")
		}
	})
}

func TestADecisionCountsOnce(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail + "\n" + `call send_email {"to":"eve"}`)
		q := r.question()
		r.run(decisions(approve(q)))
		r.sent("bob")
		second := r.question()
		r.recorded(approve(q))
		r.refused(decisions(reject(q, "")), segno.KindConflict, q.ID)
		r.sent("bob")
		if r.question().ID != second.ID {
			r.Error("an old answer changed the question after it")
		}
	})
}

func TestALateDecisionIsRefusedAndTheQuestionAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).with(func(c *agent.Config) {
			c.Approve = func(context.Context, agent.Call) *agent.Approval { return &agent.Approval{Within: time.Hour} }
		})
		r.prompt(askMail)
		old := r.question()
		time.Sleep(time.Hour + time.Second)
		_, err := r.try(decisions(approve(old)))
		if err == nil {
			t.Fatal("a late answer counts")
		}
		r.sent()
		all := r.run(agent.Input{})
		fresh := r.question()
		if all[len(all)-1].Kind != agent.EventInterrupted || fresh.ID == old.ID || fresh.Replaces != old.ID || !fresh.Expires.After(time.Now()) {
			t.Fatalf("asked anew: %+v", fresh)
		}
		r.replaced(thread, old)
		time.Sleep(30 * time.Minute)
		r.finish(approve(fresh))
		r.sent("bob")
	})
}

func TestAnApprovalHoldsForTheArgumentsThatWereAskedAbout(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(askMail)
	q := r.question()
	// Another program with access to the store gives the question other arguments.
	forged := q
	forged.Args, forged.ID, forged.Replaces = json.RawMessage(`{"to":"eve"}`), segno.NewID(), q.ID
	e, err := forged.Entry()
	r.ok(err)
	head, err := r.store.Head(r.ctx, thread)
	r.ok(err)
	_, err = r.store.Commit(r.ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Parent: head.Head, Expect: head.Head,
		Epoch: head.Epoch, Entries: []segno.Entry{e}})
	r.ok(err)
	r.refused(decisions(approve(forged)), segno.KindCorrupt, "arguments")
	r.sent()
}

func TestEditedArgumentsThatDoNotFitAreRefused(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(askMail)
	q := r.question()
	r.refused(decisions(edit(q, `{"to":7}`)), segno.KindInvalid, "do not match")
	r.refused(decisions(edit(q, `[]`)), segno.KindInvalid, "do not match")
	r.sent()
	r.finish(edit(r.question(), `{"to":"eve"}`))
	r.sent("eve")
}

func TestFirstOfTwoConcurrentDecisionsWins(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail)
		q := r.question()
		errs := make(chan error)
		for _, d := range []segno.Decision{approve(q), reject(q, "no")} {
			go func() {
				_, err := agent.New(r.config).Run(r.ctx, agent.Input{Thread: thread, Decide: []segno.Decision{d}})
				errs <- err
			}()
		}
		var lost error
		for range 2 {
			if err := <-errs; err != nil {
				lost = errors.Join(lost, err)
			}
		}
		if lost == nil || segno.KindOf(lost) != segno.KindConflict {
			r.Errorf("the other decider gets %v", lost)
		}
		if n := len(r.results(thread)); n != 1 || len(r.mails.all()) > 1 {
			r.Errorf("%d results, mail to %v", n, r.mails.all())
		}
	})
}

func TestDecisionRecordsActor(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(`call send_email {"to":"a"} ; call send_email {"to":"b"}`)
	open := r.open(thread)
	byName := reject(open[0], "")
	byName.Actor = "ann"
	all := r.run(agent.Input{Decide: []segno.Decision{byName, reject(open[1], "")}, Actor: "ben"})
	for i, want := range []string{"ann", "ben"} {
		if d := all.of(agent.EventDecision)[i].Decision; d.Actor != want || d.Time.IsZero() {
			t.Errorf("decision %d: %+v, want by %s", i, d, want)
		}
	}
	r.answers("rejected by ann", "rejected by ben")
}

func TestAnApprovalHoldsForArgumentsHoweverTheyAreWritten(t *testing.T) {
	for _, args := range []string{`{ "to" : "bob" }`, "{\n\t\"to\": \"bob\"\n}", `{"to":"<b> & \u00e9 \u2028"}`, `{"to":"é \u0000 \ud83d\ude00"}`} {
		eachStore(t, func(r *rig) {
			var want mail
			r.ok(json.Unmarshal([]byte(args), &want))
			r.asking().with(func(c *agent.Config) { c.Model = replies(calls("c1", "send_email", args), says("done")) })
			r.prompt("go")
			q := r.question()
			r.restart()
			r.finish(approve(q))
			r.sent(want.To)
		})
	}
}

func TestADecisionAndAPromptAtOnceLoseNeither(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(askMail)
	q := r.question()
	_, err := r.try(agent.Input{Prompt: "say hi", Decide: decisions(approve(q)).Decide})
	if err != nil {
		r.sent()
		r.finish(approve(q)) // refused, and nothing was decided
	}
	r.sent("bob")
}

func TestARejectionWithAPromptTellsTheModelBoth(t *testing.T) {
	r := newRig(t).asking()
	r.prompt(askMail)
	q := r.question()
	if _, err := r.try(agent.Input{Prompt: "say hi", Decide: decisions(reject(q, "he is on leave")).Decide}); err != nil {
		r.finish(reject(q, "he is on leave")) // refused, and nothing was decided
	}
	r.sent()
	if res := r.results(thread); len(res) != 1 || !contains(res[0].Text, "he is on leave") {
		t.Errorf("the model was told %+v", res)
	}
}

// TestApprovedCallWaitsForMissingTool runs an approved call with an agent that does
// not have its tool. The approval comes from a person and is not used up.
func TestApprovedCallWaitsForMissingTool(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.asking().prompt(askMail)
		q, tools := r.question(), r.config.Tools
		r.with(func(c *agent.Config) { c.Tools = nil })
		for _, in := range []agent.Input{decisions(approve(q)), {}} {
			if err := r.refused(in, segno.KindRefused, "send_email", q.Call); segno.HintOf(err) == "" {
				r.Errorf("%v has no hint", err)
			}
		}
		r.answers()
		r.restart()
		r.with(func(c *agent.Config) { c.Tools = tools })
		r.finish()
		r.sent("bob")
		r.recorded(approve(q))
	})
}

// TestAQuestionInALoopIsAskedEachTime has a model that never stops sending mail.
func TestAQuestionInALoopIsAskedEachTime(t *testing.T) {
	r := newRig(t).asking().with(func(c *agent.Config) { c.Model = replies(calls("c", "send_email", `{"to":"bob"}`)) })
	r.prompt("go")
	seen := map[string]bool{}
	for i := range 4 {
		q := r.question()
		if seen[q.ID] || seen[q.Call] {
			t.Errorf("round %d asks %+v again", i, q)
		}
		seen[q.ID], seen[q.Call] = true, true
		if n := len(r.mails.all()); n != i {
			t.Errorf("%d mails after %d approvals", n, i)
		}
		r.run(decisions(approve(q)))
	}
}

// TestAPromptAfterADecidedCall loses the result of a call, has a person decide about it without a run, and prompts again. The
// new turn begins after the decision was followed.
func TestAPromptAfterADecidedCall(t *testing.T) {
	for kind, want := range map[segno.DecisionKind][]string{segno.Approve: {"bob"}, segno.Reject: nil, segno.Respond: nil} {
		t.Run(string(kind), func(t *testing.T) {
			eachStore(t, func(r *rig) {
				r.with(func(c *agent.Config) {
					c.Model = replies(calls("1", "send_email", `{"to":"bob"}`), says("done"))
				})
				send := r.mails.tool(agent.LostAsk)
				ctx, cancel := context.WithCancel(r.ctx)
				defer cancel()
				lost := send
				lost.Run = func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
					cancel()
					return agent.Result{}, ctx.Err()
				}
				r.with(func(c *agent.Config) { c.Tools = []agent.Tool{lost} })
				for range r.agent.Stream(ctx, agent.Input{Thread: thread, Prompt: "send"}) {
				}
				r.with(func(c *agent.Config) { c.Tools = []agent.Tool{send} })
				next := agent.Input{Prompt: "next", Key: "next"}
				r.refused(next, segno.KindRefused)
				q := r.question()
				if q.Reason != segno.ReasonUnknown {
					t.Fatalf("it asks %+v", q)
				}
				r.ok(r.agent.Decide(r.ctx, thread, segno.Decision{Interrupt: q.ID, Kind: kind, Text: map[segno.DecisionKind]string{segno.Respond: "sent"}[kind]}))
				r.one(r.run(next), agent.EventDone)
				r.sent(want...)
			})
		})
	}
}
