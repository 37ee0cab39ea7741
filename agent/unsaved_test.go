package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// failingFrom makes the store fail from the first commit on for which begins returns true. The returned function ends that.
// With applied, the store applies the commits and their acknowledgments are lost.
func (r *rig) failingFrom(applied bool, begins func(c segno.Commit) bool) (end func()) {
	out := false
	o := &outage{lessor: r.store.(lessor), fails: func(c segno.Commit) (before, after bool) {
		out = out || begins(c)
		return out && !applied, out && applied
	}}
	r.store = o
	r.with(func(c *agent.Config) { c.StoreRetry = agent.Retry{Attempts: 2, Wait: time.Microsecond} })
	return func() { o.fails = func(segno.Commit) (before, after bool) { return false, false } }
}

// fails runs the thread, which must fail.
func (r *rig) fails(in agent.Input) {
	r.Helper()
	if _, err := r.try(in); err == nil {
		r.Fatal("the run succeeds")
	}
}

// isStep reports whether a commit records the result of a step.
func isStep(c segno.Commit) bool {
	for _, e := range c.Entries {
		if e.Kind == segno.EntryState && strings.HasPrefix(e.Name, ".steps/") {
			return true
		}
	}
	return false
}

// TestAStepAfterAnUnsavedOne has the store fail at the commit of a step's result. This process knows that the call stopped
// there, so a failure of its next step is the step's first one, and no person is asked about it.
func TestAStepAfterAnUnsavedOne(t *testing.T) {
	for name, applied := range map[string]bool{"not applied": false, "applied, and the answer lost": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var did diary
			r.waiting(agent.LostRetry, func(ctx context.Context, _ *agent.Invocation) (string, error) {
				if _, err := agent.Do(ctx, "reserve", func(context.Context) (int, error) { did.add("reserve"); return 1, nil }); err != nil {
					return "", err
				}
				_, err := agent.Do(ctx, "pay", func(context.Context) (int, error) { did.add("pay"); return 0, errors.New("the bank is closed") })
				agent.Sleep(ctx, time.Hour)
				return "", err
			})
			end := r.failingFrom(applied, isStep)
			in := agent.Input{Prompt: callWork, Key: "k"}
			r.fails(in)
			end()
			r.waits(in, segno.ReasonSleep)
			did.has(t, "reserve", "pay")
		})
	}
}

// TestASignalWhoseReceiptIsUnsaved has the store fail at the commit that records that a wait received a signal. The next run
// receives it, and a failure after it is the call's first one.
func TestASignalWhoseReceiptIsUnsaved(t *testing.T) {
	for name, applied := range map[string]bool{"not applied": false, "applied, and the answer lost": true} {
		for _, policy := range []agent.OnLost{agent.LostRetry, agent.LostAsk} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				r := newRig(t)
				r.waiting(policy, func(ctx context.Context, _ *agent.Invocation) (string, error) {
					a, err := agent.Await(ctx, "paid")
					if err != nil {
						return "", err
					}
					return "", errors.New("the bank is closed for " + a.Text)
				})
				r.prompt("say hi")
				r.ok(r.agent.Signal(r.ctx, thread, "paid", "key", 1))
				end := r.failingFrom(applied, func(c segno.Commit) bool { return has(c, segno.EntryInterrupt) })
				in := agent.Input{Prompt: callWork, Key: "k"}
				r.fails(in)
				end()
				r.one(r.run(in), agent.EventDone)
				r.answers("the bank is closed for 1")
			})
		}
	}
}

// TestAnUnsavedWaitBesideAnotherCall has the store fail at the commit of a wait while another call of the step runs. The
// result of the other call is in this process, so no person is asked about it.
func TestAnUnsavedWaitBesideAnotherCall(t *testing.T) {
	for name, applied := range map[string]bool{"not applied": false, "applied, and the answer lost": true} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				failed := make(chan struct{})
				r.waiting(agent.LostAsk, func(ctx context.Context, _ *agent.Invocation) (string, error) {
					agent.Sleep(ctx, time.Hour)
					return "slept", nil
				})
				r.with(func(c *agent.Config) {
					c.Model = replies(calls("1", "work", `{}`, "2", "send_late", `{"to":"bob"}`), says("done"))
					c.Tools = append(c.Tools, agent.NewTool("send_late", "sends an email", agent.LostAsk, func(ctx context.Context, _ *agent.Invocation, m mail) (string, error) {
						<-failed
						r.mails.mu.Lock()
						defer r.mails.mu.Unlock()
						r.mails.to = append(r.mails.to, m.To)
						return "sent to " + m.To, nil
					}))
				})
				end := r.failingFrom(applied, func(c segno.Commit) bool { return has(c, segno.EntryInterrupt) })
				o := r.store.(*outage)
				fails, tries := o.fails, 0
				o.fails = func(c segno.Commit) (before, after bool) {
					before, after = fails(c)
					if has(c, segno.EntryInterrupt) {
						if tries++; tries == 2 { // the last try of the commit of the wait
							close(failed)
						}
					}
					return before, after
				}
				in := agent.Input{Prompt: "go", Key: "k"}
				r.fails(in)
				end()
				r.waits(in, segno.ReasonSleep)
				r.sent("bob")
			})
		})
	}
}

// TestTheReplayOfUnsavedCommitsFailsMidway has the store fail while two calls record a step. The next run commits them again,
// and then the store fails again. The result of a third call is still in this process, so no person is asked about it.
func TestTheReplayOfUnsavedCommitsFailsMidway(t *testing.T) {
	for name, applied := range map[string]bool{"the third is not applied": false, "the answer to the second is lost": true} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				var did diary
				r.waiting(agent.LostRetry, func(ctx context.Context, inv *agent.Invocation) (string, error) {
					return agent.Do(ctx, "reserve", func(context.Context) (string, error) { did.add("reserve"); return "reserved", nil })
				})
				r.with(func(c *agent.Config) {
					c.Model = replies(calls("1", "work", `{}`, "2", "work", `{}`, "3", "send_email", `{"to":"bob"}`), says("done"))
				})
				end := r.failingFrom(false, isStep)
				in := agent.Input{Prompt: "go", Key: "k"}
				r.fails(in)
				end()
				o, replayed := r.store.(*outage), 0
				o.fails = func(c segno.Commit) (before, after bool) {
					if replayed++; replayed == 1 {
						return false, false
					}
					return !applied && replayed > 2, applied
				}
				r.fails(in)
				end()
				r.one(r.run(in), agent.EventDone)
				r.sent("bob")
				did.has(t, "reserve", "reserve")
			})
		})
	}
}
