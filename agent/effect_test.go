package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/store/sqlite"
)

// after returns a rig on the store that a dead process left in dir.
func after(t testing.TB, dir string, o order) *rig {
	t.Helper()
	store, err := sqlite.Open(t.Context(), storeFile(dir), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r := rigOn(t, func() segno.Store { return store })
	r.config = ledgerAgent(store, dir, order{Effect: o.Effect, Ask: o.Ask}).Config
	return r.with(func(*agent.Config) {})
}

// paid checks the lines of the ledger in dir.
func (r *rig) paid(dir string, want ...string) {
	r.Helper()
	var got []string
	for _, x := range r.ledger(dir) {
		got = append(got, x.text)
	}
	if !slices.Equal(got, want) {
		r.Errorf("paid %q, want %q", got, want)
	}
}

func (r *rig) ledger(dir string) []line {
	r.Helper()
	lines, err := ledger{file: ledgerFile(dir)}.lines()
	r.ok(err)
	return lines
}

const pay = `call pay {"line":"rent"}`

// killed runs an order in a process that is killed by it.
func killed(t testing.TB, o order) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, dead := child(t, "run", dir, o); !dead {
		t.Fatalf("it is still alive after %+v", o)
	}
	return dir
}

// TestARetryThatFailsIsAskedAbout cancels a run after a payment was made, and has the retry of
// the payment fail. The failure is not the call's result: the first attempt has succeeded.
func TestARetryThatFailsIsAskedAbout(t *testing.T) {
	for reason, want := range map[string]string{"the bank is closed": "the bank is closed", "": "no reason"} {
		t.Run(want, func(t *testing.T) { eachStore(t, func(r *rig) { retryFails(r, reason, want) }) })
	}
}

func retryFails(r *rig, reason, want string) {
	var keys []string
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	r.with(func(c *agent.Config) {
		c.Tools = []agent.Tool{agent.NewTool("pay", "pays once", agent.LostRetry, func(ctx context.Context, inv *agent.Invocation, _ payment) (string, error) {
			if keys = append(keys, inv.Key); len(keys) == 1 {
				cancel()
				return "", context.Canceled
			}
			return "", errors.New(reason)
		})}
	})
	if _, err := r.agent.Run(ctx, agent.Input{Thread: thread, Prompt: pay}); segno.KindOf(err) != segno.KindCancelled {
		r.Fatalf("the cancelled run ends with %v", err)
	}
	all := r.run(agent.Input{Prompt: pay})
	if all[len(all)-1].Kind != agent.EventInterrupted {
		r.Fatalf("the run ends with %v", all.kinds())
	}
	q := r.question()
	if q.Reason != segno.ReasonUnknown || !strings.Contains(q.Question, want) {
		r.Errorf("it asks %+v", q)
	}
	r.finish(respond(q, "paid, I see it"))
	r.answers("paid, I see it")
	if len(keys) != 2 || keys[0] != keys[1] {
		r.Errorf("the keys of the attempts are %q", keys)
	}
}

func TestACallThatWasLostIsAskedAbout(t *testing.T) {
	for name, c := range map[string]struct {
		when     string
		decide   func(segno.Interrupt) segno.Decision
		received string
	}{
		"it did not happen, and is made again":              {"before", approve, "paid rent"},
		"it happened, and a person says so":                 {"after", func(i segno.Interrupt) segno.Decision { return respond(i, "paid, I see it") }, "paid, I see it"},
		"nobody knows, and the model is told":               {"after", func(i segno.Interrupt) segno.Decision { return reject(i, "leave it") }, "unknown"},
		"it happened, and a person wants it made once more": {"after", approve, "paid rent"},
	} {
		t.Run(name, func(t *testing.T) {
			o := order{Prompt: pay, Effect: agent.LostAsk, Tool: c.when, N: 1}
			dir := killed(t, o)
			r := after(t, dir, o)
			was := len(r.ledger(dir))
			all := r.run(agent.Input{})
			if all[len(all)-1].Kind != agent.EventInterrupted {
				t.Fatalf("the run ends with %v", all.kinds())
			}
			q := r.question()
			if q.Reason != segno.ReasonUnknown || q.Tool != "pay" || q.Call != "call_1" || string(q.Args) != `{"line":"rent"}` || q.Question == "" {
				t.Errorf("it asks %+v", q)
			}
			if slices.Contains(q.Allowed, segno.Edit) {
				t.Error("a call that may have happened can be made with other arguments")
			}
			if now := len(r.ledger(dir)); now != was {
				t.Fatalf("asking made the call: %d lines, before %d", now, was)
			}
			d := c.decide(q)
			r.finish(d)
			r.answers(c.received)
			if now, again := len(r.ledger(dir)), d.Kind == segno.Approve; (now == was+1) != again || !again && now != was {
				t.Errorf("%d lines, before the decision %d", now, was)
			}
			r.recorded(d)
			if n := len(r.ledger(dir)); n > was+1 {
				t.Errorf("%d lines after the decision was given again", n)
			}
		})
	}
}

// TestAToolWithoutAPolicyAsks kills a process in a call of a tool that declares no
// policy. Its author has not thought of crashes, so a person decides.
func TestAToolWithoutAPolicyAsks(t *testing.T) {
	if (agent.Tool{}).OnLost != agent.LostAsk {
		t.Errorf("the zero policy is %q", agent.Tool{}.OnLost)
	}
	o := order{Prompt: pay, Tool: "after", N: 1}
	dir := killed(t, o)
	r := after(t, dir, o)
	r.run(agent.Input{})
	if q := r.question(); q.Reason != segno.ReasonUnknown || q.Tool != "pay" {
		t.Errorf("it asks %+v", q)
	}
	r.paid(dir, "rent")
}

func TestAPromptOverALostCallAsksAboutItFirst(t *testing.T) {
	o := order{Prompt: pay, Effect: agent.LostAsk, Tool: "after", N: 1}
	dir := killed(t, o)
	r := after(t, dir, o)
	r.refused(agent.Input{Prompt: "say something else"}, segno.KindRefused)
	q := r.question()
	if q.Reason != segno.ReasonUnknown {
		t.Errorf("it asks %+v", q)
	}
	r.finish(respond(q, "paid"))
	r.one(r.prompt("say something else"), agent.EventDone)
	r.paid(dir, "rent")
}

func TestALostCallIsMadeAgainUnderItsKey(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		o := order{Prompt: pay, Effect: agent.LostRetry, Tool: when, N: 1}
		dir := killed(t, o)
		r := after(t, dir, o)
		if err := r.refused(agent.Input{Prompt: "say something else"}, segno.KindRefused); segno.HintOf(err) == "" {
			t.Error("a prompt over it is refused without a hint")
		}
		r.finish()
		r.paid(dir, "rent")
		want := "paid rent"
		if when == "after" {
			want += " before"
		}
		r.answers(want)
	}
}

func TestALostCallStopsTheRunAndIsNamed(t *testing.T) {
	o := order{Prompt: pay, Effect: agent.LostFail, Tool: "after", N: 1}
	dir := killed(t, o)
	r := after(t, dir, o)
	for range 2 {
		err := r.refused(agent.Input{}, segno.KindRefused, "call_1", "pay")
		if segno.HintOf(err) == "" {
			t.Error("it does not say what to do")
		}
	}
	r.refused(agent.Input{Prompt: "say something else"}, segno.KindRefused, "call_1")
	r.paid(dir, "rent")
	if len(r.results(thread)) > 0 {
		t.Error("the call has a result that nobody knows")
	}
	out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
	if len(out.Interrupts) != 1 || out.Interrupts[0].Call != "call_1" || out.Interrupts[0].Reason != segno.ReasonUnknown || !contains(segno.HintOf(err), out.Interrupts[0].ID) {
		t.Errorf("the outcome asks %+v, with the hint %q", out.Interrupts, segno.HintOf(err))
	}
	// The action that the hint suggests works.
	_, err = r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
	r.one(r.prompt("say something else"), agent.EventDone)
	r.paid(dir, "rent")
}

func TestALostCallThatStopsTheRunCanBeDecided(t *testing.T) {
	for _, prompt := range []string{pay, "task payer: " + pay} {
		o := order{Prompt: prompt, Effect: agent.LostFail, Tool: "after", N: 1}
		dir := killed(t, o)
		r := after(t, dir, o)
		out, err := r.agent.Run(r.ctx, agent.Input{Thread: thread})
		if len(out.Interrupts) != 1 {
			t.Fatalf("the outcome asks %+v, %v", out.Interrupts, err)
		}
		r.ok(r.agent.Decide(r.ctx, thread, respond(out.Interrupts[0], "it was paid")))
		r.finish()
		r.paid(dir, "rent")
	}
}

func TestALostCallWithoutConsequencesIsMadeAgain(t *testing.T) {
	o := order{Prompt: pay, Effect: agent.LostRerun, Tool: "before", N: 1}
	dir := killed(t, o)
	r := after(t, dir, o)
	r.finish()
	r.paid(dir, "rent")
}

func TestAnApprovalIsUsedUpByTheCallThatWasLost(t *testing.T) {
	dir := t.TempDir()
	o := order{Prompt: pay, Effect: agent.LostAsk, Ask: true}
	child(t, "run", dir, o)
	r := after(t, dir, o)
	leave := r.question()
	r.store.Close()
	o = order{Decide: []segno.Decision{approve(leave)}, Effect: o.Effect, Ask: true, Tool: "after", N: 1}
	if _, dead := child(t, "run", dir, o); !dead {
		t.Fatal("it is still alive")
	}
	r = after(t, dir, o)
	r.recorded(approve(leave))
	lost := r.question()
	if lost.Reason != segno.ReasonUnknown || lost.ID == leave.ID || lost.Call != leave.Call {
		t.Errorf("after the approved call was lost it asks %+v", lost)
	}
	r.paid(dir, "rent")
	r.finish(respond(lost, "paid"))
	r.paid(dir, "rent")
}

func TestAnEditedCallThatWasLostIsMadeAgainAsEdited(t *testing.T) {
	dir := t.TempDir()
	o := order{Prompt: pay, Effect: agent.LostRetry, Ask: true}
	child(t, "run", dir, o)
	r := after(t, dir, o)
	d := edit(r.question(), `{"line":"half the rent"}`)
	r.store.Close()
	o = order{Decide: []segno.Decision{d}, Effect: o.Effect, Ask: true, Tool: "before", N: 1}
	if _, dead := child(t, "run", dir, o); !dead {
		t.Fatal("it is still alive")
	}
	r = after(t, dir, o)
	r.finish()
	r.paid(dir, "half the rent")
}

func TestEveryCallHasAKeyOfItsOwn(t *testing.T) {
	r := newRig(t)
	r.prompt(`call send_email {"to":"a"} ; call send_email {"to":"a"}` + "\n" + `call send_email {"to":"a"}`)
	r.run(agent.Input{Thread: "other", Prompt: `call send_email {"to":"a"}`})
	_, err := r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
	r.prompt(`call send_email {"to":"a"}`)
	seen := map[string]bool{}
	for _, k := range r.mails.keys {
		if k == "" || seen[k] {
			t.Errorf("two calls have the key %q", k)
		}
		seen[k] = true
	}
	if len(seen) != 5 {
		t.Errorf("%d keys, want 5", len(seen))
	}
}

func TestCallsThatWereLostAtOnceAreAskedAboutOneByOne(t *testing.T) {
	o := order{Prompt: `call pay {"line":"rent"} ; call pay {"line":"gas"} ; write a.txt: one`, Effect: agent.LostAsk, Tool: "after", N: 1}
	dir := killed(t, o)
	r := after(t, dir, o)
	r.run(agent.Input{})
	open := r.open(thread)
	if len(open) != 2 || open[0].Call == open[1].Call {
		t.Fatalf("it asks %+v", open)
	}
	var ds []segno.Decision
	for _, q := range open {
		if slices.ContainsFunc(r.ledger(dir), func(x line) bool { return contains(string(q.Args), x.text) }) {
			ds = append(ds, respond(q, "paid"))
		} else {
			ds = append(ds, approve(q))
		}
	}
	r.run(decisions(ds[1]))
	r.finish(ds[0])
	var paid []string
	for _, x := range r.ledger(dir) {
		paid = append(paid, x.text)
	}
	if slices.Sort(paid); !slices.Equal(paid, []string{"gas", "rent"}) {
		t.Errorf("paid %q", paid)
	}
	if n := len(r.results(thread)); n != 3 {
		t.Errorf("%d results, want 3", n)
	}
}

// TestAnIntentIsNeverBatched runs an agent whose commits are batched. The intent of a call with consequences is synced, and so
// are a new thread and every commit of an agent that chooses nothing.
func TestAnIntentIsNeverBatched(t *testing.T) {
	for _, d := range []segno.Durability{segno.Synced, segno.Batched} {
		r := newRig(t)
		intents, others := 0, 0
		r.watched(func(_ int, c segno.Commit) error {
			want, isIntent := d, slices.ContainsFunc(c.Entries, func(e segno.Entry) bool { return e.Kind == segno.EntryIntent })
			switch {
			case isIntent:
				want = segno.Synced
				intents++
			case c.Create != nil:
				want = segno.Synced
			default:
				others++
			}
			if c.Durability != want {
				t.Errorf("a commit with an intent: %t, durability %d, want %d", isIntent, c.Durability, want)
			}
			return nil
		}, nil)
		r.with(func(c *agent.Config) { c.Durability = d })
		r.prompt(askMail)
		r.sent("bob")
		if intents != 1 || others < 2 {
			t.Errorf("%d commits with an intent and %d others", intents, others)
		}
	}
}

// TestADecisionIsNeverBatched decides while commits are batched. A power failure must not lose an approval that Decide recorded.
func TestADecisionIsNeverBatched(t *testing.T) {
	r := newRig(t).asking().with(func(c *agent.Config) { c.Durability = segno.Batched })
	r.prompt(askMail)
	q, decided := r.question(), 0
	r.watched(func(_ int, c segno.Commit) error {
		if slices.ContainsFunc(c.Entries, func(e segno.Entry) bool { return e.Kind == segno.EntryDecision }) {
			decided++
			if c.Durability != segno.Synced {
				t.Errorf("a decision has the durability %d", c.Durability)
			}
		}
		return nil
	}, nil)
	r.ok(r.agent.Decide(r.ctx, thread, approve(q)))
	if decided != 1 {
		t.Errorf("%d commits with a decision", decided)
	}
}
