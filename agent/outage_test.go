package agent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// outage is a store that fails at some commits, before or after it applied them.
type outage struct {
	lessor
	fails func(c segno.Commit) (before, after bool)
	tries int
}

func (o *outage) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	o.tries++
	before, after := o.fails(c)
	if before {
		return segno.Head{}, errDisk
	}
	head, err := o.lessor.Commit(ctx, c)
	if err == nil && after {
		err = errDisk
	}
	return head, err
}

func has(c segno.Commit, kind segno.EntryKind) bool {
	for _, e := range c.Entries {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// TestAStoreThatFailsInPassingIsAskedAgain has each commit fail once before it is applied
// and once after it.
func TestAStoreThatFailsInPassingIsAskedAgain(t *testing.T) {
	eachStore(t, func(r *rig) {
		seen := map[segno.CommitID]int{}
		o := &outage{lessor: r.store.(lessor), fails: func(c segno.Commit) (before, after bool) {
			seen[c.ID]++
			return seen[c.ID] == 1, seen[c.ID] == 2
		}}
		r.store = o
		r.with(func(*agent.Config) {})
		r.one(r.prompt(askMail+"\nsay sent"), agent.EventDone)
		r.sent("bob")
		r.answers("sent to bob")
		for id, n := range seen {
			if n != 3 {
				r.Errorf("commit %s was tried %d times, want 3", id, n)
			}
		}
	})
}

func TestAStoreThatGoesOnFailingIsGivenUp(t *testing.T) {
	r := newRig(t)
	o := &outage{lessor: r.store.(lessor), fails: func(segno.Commit) (before, after bool) { return true, false }}
	r.store = o
	r.with(func(c *agent.Config) { c.StoreRetry = agent.Retry{Attempts: 4, Wait: time.Microsecond} })
	r.refused(agent.Input{Prompt: "say hi"}, segno.KindIO)
	if o.tries != 4 {
		t.Errorf("%d tries, want 4", o.tries)
	}
}

// TestDeferredResultNeedsNoQuestion has the store fail for longer than the retries last,
// from the commit of a call's result on.
func TestDeferredResultNeedsNoQuestion(t *testing.T) {
	for name, applied := range map[string]bool{"not applied": false, "applied, and the answer lost": true} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				out := false
				o := &outage{lessor: r.store.(lessor), fails: func(c segno.Commit) (before, after bool) {
					out = out || has(c, segno.EntryResult)
					return out && !applied, out && applied
				}}
				r.store = o
				r.with(func(c *agent.Config) { c.StoreRetry = agent.Retry{Attempts: 2, Wait: time.Microsecond} })
				in := agent.Input{Prompt: askMail + "\nsay sent", Key: "k"}
				r.refused(in, segno.KindIO)
				r.sent("bob")
				if !applied {
					r.refused(in, segno.KindIO)
				}
				o.fails = func(segno.Commit) (before, after bool) { return false, false }
				r.one(r.run(in), agent.EventDone)
				r.sent("bob")
				r.answers("sent to bob")
			})
		})
	}
}

// TestACallThatTheProcessKnowsNotToHaveBegunIsMade loses the acknowledgment of the commit of a
// call's intent. The intent is in the log, but the call was not made.
func TestACallThatTheProcessKnowsNotToHaveBegunIsMade(t *testing.T) {
	eachStore(t, func(r *rig) {
		out := false
		o := &outage{lessor: r.store.(lessor), fails: func(c segno.Commit) (before, after bool) {
			was := out
			out = out || has(c, segno.EntryIntent)
			return was, out
		}}
		r.store = o
		r.with(func(c *agent.Config) { c.StoreRetry = agent.Retry{Attempts: 2, Wait: time.Microsecond} })
		in := agent.Input{Prompt: askMail + "\nsay sent", Key: "k"}
		if _, err := r.try(in); err == nil {
			r.Fatal("it succeeds")
		}
		r.sent()
		o.fails = func(segno.Commit) (before, after bool) { return false, false }
		r.one(r.run(in), agent.EventDone)
		r.sent("bob")
	})
}

// TestALostAcknowledgementOfTheLastCommitReturnsTheAnswer loses the acknowledgment of the commit
// that ends the turn, until the run stops retrying.
func TestALostAcknowledgementOfTheLastCommitReturnsTheAnswer(t *testing.T) {
	for name, in := range map[string]agent.Input{"without a prompt": {}, "with the same prompt": {Prompt: "say hi", Key: "k"}} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				out := false
				o := &outage{lessor: r.store.(lessor), fails: func(c segno.Commit) (before, after bool) {
					was := out
					out = out || c.Checkpoint != nil && c.Checkpoint.Kind == segno.CheckpointTurn
					return was, out
				}}
				r.store = o
				r.with(func(c *agent.Config) { c.StoreRetry = agent.Retry{Attempts: 1} })
				r.refused(agent.Input{Prompt: "say hi", Key: "k"}, segno.KindIO)
				o.fails = func(segno.Commit) (before, after bool) { return false, false }
				if e := r.one(r.run(in), agent.EventDone); e.Text != "hi" {
					r.Errorf("the answer is %q", e.Text)
				}
				if n := len(r.messages(thread, "")); n != 2 {
					r.Errorf("%d messages, want 2", n)
				}
			})
		})
	}
}

// sticky is a store whose leases cannot be released.
type sticky struct{ lessor }

func (sticky) Release(context.Context, segno.Lease) error { return errDisk }

// TestALeaseThatCouldNotBeReleasedDoesNotStopTheNextRun runs a thread twice.
func TestALeaseThatCouldNotBeReleasedDoesNotStopTheNextRun(t *testing.T) {
	r := newRig(t)
	whole := r.store.(lessor)
	r.store = sticky{whole}
	r.with(func(c *agent.Config) { c.StoreRetry = agent.Retry{Attempts: 2, Wait: time.Microsecond} })
	r.prompt("say one")
	if _, err := agent.New(r.config).Run(r.ctx, agent.Input{Thread: thread, Prompt: "say other"}); !errors.Is(err, agent.ErrRunning) {
		t.Errorf("another agent, which cannot know that the run has ended, gets %v", err)
	}
	r.phase(agent.PhaseDone, 0)
	r.agent.Store = whole
	r.prompt("say two")
}

// TestAnApprovedRepetitionKeepsEditedArguments loses the result of a call with edited arguments. The
// call is approved again; then the acknowledgment of its second intent is lost, and the next run is
// cancelled before it begins the call. The call runs with the arguments that were approved.
func TestAnApprovedRepetitionKeepsEditedArguments(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.with(func(c *agent.Config) {
			c.Model = replies(calls("1", "send_email", `{"to":"bob"}`), says("done"))
			c.Approve = agent.RequireApproval("send_email")
		})
		healthy := func(segno.Commit) (before, after bool) { return false, false }
		o := &outage{lessor: r.store.(lessor), fails: healthy}
		r.store = o
		r.with(func(c *agent.Config) { c.StoreRetry = agent.Retry{Attempts: 2, Wait: time.Microsecond} })
		r.prompt("go")
		cancelledAt := func(kind agent.EventKind, in agent.Input) {
			r.Helper()
			ctx, cancel := context.WithCancel(r.ctx)
			defer cancel()
			in.Thread = thread
			for e := range r.agent.Stream(ctx, in) {
				if e.Kind == kind {
					cancel()
				}
			}
		}
		send := r.mails.tool(agent.LostAsk)
		lost := send
		lost.Run = func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		r.with(func(c *agent.Config) { c.Tools = []agent.Tool{lost} })
		cancelledAt(agent.EventToolStart, decisions(edit(r.question(), `{"to":"eve"}`)))
		r.with(func(c *agent.Config) { c.Tools = []agent.Tool{send} })
		r.run(agent.Input{})
		q := r.question()
		if q.Reason != segno.ReasonUnknown || string(q.Args) != `{"to":"eve"}` {
			r.Fatalf("it asks %+v", q)
		}
		out := false
		o.fails = func(c segno.Commit) (before, after bool) {
			was := out
			out = out || has(c, segno.EntryIntent)
			return was, out
		}
		r.refused(decisions(approve(q)), segno.KindIO)
		o.fails = healthy
		cancelledAt(agent.EventLoaded, agent.Input{})
		r.sent()
		r.finish()
		r.sent("eve")
	})
}
