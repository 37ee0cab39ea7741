package agent_test

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

func TestAThreadOfAnotherMachineIsLeftAloneUntilItsLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.prompt("say one")
		_, err := r.store.(segno.Leaser).Acquire(r.ctx, segno.Lease{Thread: thread, Owner: "agent elsewhere 1 x y", Expires: time.Now().Add(time.Minute)})
		r.ok(err)
		_, err = r.try(agent.Input{Prompt: "say two"})
		r.conflicts(err)
		time.Sleep(time.Minute + time.Second)
		r.prompt("say two")
	})
}

func TestARunKeepsItsThreadHoweverLongAToolTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, sleeper()) })
		first := make(chan error)
		go func() {
			_, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "call sleep {}"})
			first <- err
		}()
		for range 5 {
			time.Sleep(10 * time.Minute)
			_, err := r.try(agent.Input{Prompt: "say hi"})
			r.conflicts(err)
		}
		r.ok(<-first)
		r.answers("slept")
	})
}

// sleeper returns a tool that takes an hour.
func sleeper() agent.Tool {
	return agent.NewTool("sleep", "sleeps", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (string, error) {
		time.Sleep(time.Hour)
		return "slept", nil
	})
}

// slow is a store whose first answer about a lease takes longer than the lease.
type slow struct {
	lessor
	once sync.Once
}

func (s *slow) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	s.once.Do(func() { time.Sleep(time.Until(l.Expires) + time.Second) })
	return s.lessor.Acquire(ctx, l)
}

// TestAnOutageLongerThanTheLeaseDoesNotFailTheRun has a run that acquires its lease while the store cannot be reached.
func TestAnOutageLongerThanTheLeaseDoesNotFailTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store = &slow{lessor: r.store.(lessor)}
		r.with(func(*agent.Config) {})
		r.one(r.prompt("say one"), agent.EventDone)
	})
}

// mute is a store that a run cannot reach to renew its lease, as on a machine that
// was asleep.
type mute struct {
	lessor
	once sync.Map // owners
}

func (m *mute) Acquire(ctx context.Context, l segno.Lease) (segno.Lease, error) {
	if _, again := m.once.LoadOrStore(l.Owner, true); again {
		return segno.Lease{}, errDisk
	}
	return m.lessor.Acquire(ctx, l)
}

// TestARunThatLostItsThreadRecordsNothing has a run fail to renew for longer than its
// lease. Another run takes the thread meanwhile.
func TestARunThatLostItsThreadRecordsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store = &mute{lessor: r.store.(lessor)}
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, sleeper()) })
		type end struct {
			all eventList
			err error
		}
		first := make(chan end)
		go func() {
			all, err := r.try(agent.Input{Prompt: "call sleep {}"})
			first <- end{all, err}
		}()
		time.Sleep(30 * time.Minute)
		if _, err := agent.New(r.config).Run(r.ctx, agent.Input{Thread: thread, Prompt: "say hi"}); err != nil {
			t.Fatalf("the other run: %v", err)
		}
		silent := <-first
		if kind := segno.KindOf(silent.err); kind != segno.KindFenced && kind != segno.KindConflict {
			t.Errorf("the run that lost the thread ends with %v", silent.err)
		}
		if len(silent.all.of(agent.EventToolResult)) > 0 {
			t.Error("it tells a result that is not in the store")
		}
		for _, res := range r.results(thread) {
			if res.Text == "slept" {
				t.Error("it recorded a result")
			}
		}
		if m := r.messages(thread, ""); m[len(m)-1].Text() != "hi" {
			t.Errorf("the thread ends with %+v", m[len(m)-1])
		}
	})
}

// leaseless is a store without leases.
type leaseless struct{ segno.Store }

func TestWithoutLeasesTheFirstCommitWins(t *testing.T) {
	r := newRig(t)
	r.store = leaseless{r.store}
	r.with(func(*agent.Config) {})
	began, goOn := make(chan struct{}), make(chan struct{})
	wait := agent.NewTool("wait", "waits", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (string, error) {
		close(began)
		<-goOn
		return "too late", nil
	})
	r.with(func(c *agent.Config) { c.Tools = append(c.Tools, wait) })
	first := make(chan error)
	go func() {
		_, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "call wait {}"})
		first <- err
	}()
	<-began
	r.prompt("say hi")
	close(goOn)
	r.conflicts(<-first)
	if m := r.messages(thread, ""); m[len(m)-1].Text() != "hi" {
		t.Errorf("the thread ends with %+v", m[len(m)-1])
	}
}

func TestManyThreadsRunAtOnce(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped()
		var all sync.WaitGroup
		ids := []string{"a", "b", "c", "d", "e", "f"}
		for _, id := range ids {
			all.Go(func() {
				for range 3 {
					if _, err := r.agent.Run(r.ctx, agent.Input{Thread: id, Prompt: "write " + id + ".txt: " + id + " ; todo x\ntask scout: read " + id + ".txt"}); err != nil {
						r.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, id := range ids {
			w, err := r.agent.Status(r.ctx, id)
			r.ok(err)
			if w.Turn != 3 || w.Files != 1 || w.Todos == 0 {
				r.Errorf("%s: %+v", id, w)
			}
		}
	})
}

// locked is a store that another program has locked for writing.
type locked struct{ lessor }

func (locked) Acquire(context.Context, segno.Lease) (segno.Lease, error) {
	return segno.Lease{}, segno.NewError(segno.KindBusy, "acquire", "", nil)
}

func TestABusyStoreIsNoConflict(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	r.store = locked{r.store.(lessor)}
	r.with(func(*agent.Config) {})
	r.refused(agent.Input{Prompt: "say two"}, segno.KindBusy)
}

// TestLeaseTimeIsAnOption has a run stop renewing, as on a machine that failed. Another machine takes over
// the thread after the lease time of the run's agent.
func TestLeaseTimeIsAnOption(t *testing.T) {
	for _, leaseTime := range []time.Duration{0, 4 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.prompt("say hi")
			store := r.store
			r.store = &mute{lessor: store.(lessor)} // the first lease is granted, and never renewed
			r.with(func(c *agent.Config) { c.LeaseTime, c.Tools = leaseTime, append(c.Tools, sleeper()) })
			go func() { _, _ = r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "call sleep {}"}) }()
			synctest.Wait()
			began := time.Now()
			for n := 0; ; n++ {
				_, err := store.(segno.Leaser).Acquire(r.ctx, segno.Lease{Thread: thread, Owner: "agent elsewhere 1 x y", Expires: time.Now().Add(time.Hour)})
				if err == nil {
					break
				}
				time.Sleep(time.Second)
			}
			want := cmp.Or(leaseTime, 30*time.Second)
			if took := time.Since(began); took < want-time.Second || took > want+time.Second {
				t.Errorf("another machine has the thread after %s, want %s", took, want)
			}
			time.Sleep(2 * time.Hour) // the tool ends
		})
	}
	r := newRig(t).with(func(c *agent.Config) { c.LeaseTime = time.Second })
	r.refused(agent.Input{Prompt: "say hi"}, segno.KindInvalid, "lease time")
}

// TestDecisionWithRunDuringARun gives decisions to Run while another run has the thread. They are not
// recorded, and the hint names the method that records them.
func TestDecisionWithRunDuringARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.with(func(c *agent.Config) {
			c.Tools = append(c.Tools, sleeper())
			c.Approve = agent.RequireApproval("send_email")
		})
		ended := make(chan error)
		go func() {
			_, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: askMail + " ; call sleep {}"})
			ended <- err
		}()
		synctest.Wait()
		q := r.question()
		_, err := r.try(decisions(approve(q)))
		r.wants(err, segno.KindConflict, "already running")
		if hint := segno.HintOf(err); !contains(hint, "with Decide") {
			t.Errorf("hint %q", hint)
		}
		r.ok(r.agent.Decide(r.ctx, thread, approve(q)))
		r.ok(<-ended)
		r.sent("bob")
	})
}

// TestToolThatIgnoresItsContextIsNamed cancels a run whose tool does not return. The run waits for the
// tool and reports the tool's name.
func TestToolThatIgnoresItsContextIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, sleeper()) })
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		began := time.Now()
		named := false
		var failed error
		for e, err := range r.agent.Stream(ctx, agent.Input{Thread: thread, Prompt: `call sleep {} ; call send_email {"to":"bob"}`}) {
			switch {
			case e.Kind == agent.EventToolStart && e.Call.Name == "sleep":
				cancel()
			case e.Kind == agent.EventToolOverdue:
				named = true
				if took := time.Since(began); e.Call.Name != "sleep" || !contains(e.Text, "sleep") || took > time.Minute {
					t.Errorf("after %s: %+v", took, e)
				}
			}
			failed = err
		}
		if !named {
			t.Error("no event names the tool")
		}
		r.wants(failed, segno.KindCancelled, `the tool "sleep" ignored the end of its context`)
	})
}
