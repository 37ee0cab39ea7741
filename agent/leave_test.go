package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
)

// TestEveryCallNeedsItsOwnApproval prompts, answers, cancels, moves and forks at
// random, with subagents that ask as well, with questions that expire, and with a clock that is
// sometimes set back. There are never more calls than approvals, every thread can be completed, and
// every call has one result.
func TestEveryCallNeedsItsOwnApproval(t *testing.T) {
	histories := 25
	if testing.Short() {
		histories = 10
	}
	for _, seed := range soak.Seeds(t, histories, 3000) {
		l := newLeave(t, seed, seed%2 == 1)
		for range 40 {
			l.step()
			if l.sends > l.approved {
				l.broken("%d calls were made with %d approvals", l.sends, l.approved)
			}
		}
		for _, thread := range l.threads {
			l.end(thread)
		}
	}
}

// leave is a history of an agent that must not send anything without approval.
type leave struct {
	*testing.T
	a       *agent.Agent
	rnd     *rand.Rand
	threads []string
	log     []string
	now     time.Time

	mu              sync.Mutex
	sends, approved int
}

// newLeave begins a history. If hurries is set, every question expires within a minute.
func newLeave(t *testing.T, seed uint64, hurries bool) *leave {
	l := &leave{T: t, rnd: rand.New(rand.NewPCG(seed, 7)), threads: []string{"t"}, log: []string{fmt.Sprint("seed ", seed, hurries)}, now: time.Unix(1e9, 0)}
	leave := &agent.Approval{}
	if hurries {
		leave.Within = time.Minute
	}
	send := agent.NewTool("send", "", agent.LostAsk, func(context.Context, *agent.Invocation, struct{}) (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sends++
		return "sent", nil
	})
	const task = `{"agent":"w","prompt":"x"}`
	plans := []agent.Reply{calls("1", "send", `{}`, "2", "send", `{}`), calls("1", "send", `{}`, "2", "task", task),
		calls("1", "task", task, "2", "task", task), calls("1", "send", `{}`, "2", "send", `{}`, "3", "send", `{}`)}
	main := &script{answer: func(_ int, q agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
		if q.Messages[len(q.Messages)-1].Role != agent.User {
			return says("ok"), nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return plans[l.rnd.IntN(len(plans))], nil
	}}
	worker := &script{answer: func(_ int, q agent.Request, _ func(agent.Chunk)) (agent.Reply, error) {
		if len(q.Messages) == 1 {
			return calls("1", "send", `{}`, "2", "send", `{}`), nil
		}
		return says("sub"), nil
	}}
	l.a = agent.New(agent.Config{Model: main, Store: memory.New(nil), Parallel: 1, Tools: []agent.Tool{send},
		Now: func() time.Time { return l.now },
		Approve: func(_ context.Context, c agent.Call) *agent.Approval {
			if c.Name != "send" {
				return nil
			}
			return leave
		},
		Subagents: []agent.Subagent{{Name: "w", Model: worker}}})
	l.run(agent.Input{Thread: "t", Prompt: "go"})
	return l
}

func (l *leave) broken(format string, args ...any) {
	l.Helper()
	l.Fatalf("%s:\n%s", fmt.Sprintf(format, args...), strings.Join(l.log[max(0, len(l.log)-12):], "\n"))
}

// note logs an action, and fails for an error that is more than a refusal.
func (l *leave) note(what string, err error) {
	l.Helper()
	l.log = append(l.log, fmt.Sprint(what, ": ", err))
	switch segno.KindOf(err) {
	case segno.KindCorrupt, segno.KindFenced, segno.KindBusy:
		l.broken("%v", err)
	}
	if err != nil && segno.KindOf(err) == segno.KindInternal && !errors.Is(err, context.Canceled) {
		l.broken("%v", err)
	}
}

// run runs a thread, half the time until it is cancelled at some event.
func (l *leave) run(in agent.Input) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	cut := 0
	if l.rnd.IntN(2) == 0 {
		cut = 1 + l.rnd.IntN(25)
	}
	n, last := 0, error(nil)
	for e, err := range l.a.Stream(ctx, in) {
		if n++; n == cut {
			l.log = append(l.log, "cancelled at "+string(e.Kind))
			cancel()
		}
		if e.Kind == agent.EventDecision && e.Agent == "" && e.Decision.Kind == segno.Approve {
			l.approved++
		}
		last = err
	}
	l.note(fmt.Sprintf("%s runs, prompt %q, %d decisions", in.Thread, in.Prompt, len(in.Decide)), last)
}

// step takes one random action.
func (l *leave) step() {
	l.Helper()
	thread := l.threads[l.rnd.IntN(len(l.threads))]
	switch l.rnd.IntN(6) {
	case 0:
		l.now = l.now.Add(time.Hour)
	case 1: // the clock of another machine
		l.now = l.now.Add(-time.Hour)
	}
	switch l.rnd.IntN(9) {
	case 0, 1:
		l.run(agent.Input{Thread: thread, Prompt: "go"})
	case 2, 3, 4:
		l.run(agent.Input{Thread: thread, Decide: l.decisions(thread)})
	case 5:
		l.run(agent.Input{Thread: thread})
	case 6:
		_, err := l.a.Undo(l.Context(), thread, 1+l.rnd.IntN(2))
		l.note(thread+" undo", err)
	case 7:
		_, err := l.a.Redo(l.Context(), thread, 1)
		l.note(thread+" redo", err)
	case 8:
		l.travel(thread)
	}
}

// decisions answers most of the open questions.
func (l *leave) decisions(thread string) (all []segno.Decision) {
	l.Helper()
	w, err := l.a.Reask(l.Context(), thread)
	l.note(thread+" refresh", err)
	for _, i := range w.Interrupts {
		switch l.rnd.IntN(6) {
		case 0:
		case 1:
			all = append(all, reject(i, "no"))
		default:
			all = append(all, approve(i))
		}
	}
	return all
}

// travel restores one of the newest checkpoints, or forks there.
func (l *leave) travel(thread string) {
	l.Helper()
	var all []segno.CommitID
	for c, err := range l.a.Saver().History(l.Context(), saver.ThreadKey{Thread: thread}, segno.CheckpointQuery{Limit: 6}) {
		if err != nil {
			l.Fatal(err)
		}
		all = append(all, c.ID)
	}
	at := all[l.rnd.IntN(len(all))]
	if l.rnd.IntN(3) > 0 || len(l.threads) > 3 {
		_, err := l.a.Restore(l.Context(), thread, at)
		l.note(thread+" restore", err)
		return
	}
	fork := fmt.Sprint("f", len(l.threads))
	_, err := l.a.Fork(l.Context(), at, fork)
	l.note(thread+" fork to "+fork, err)
	if err != nil {
		l.broken("fork: %v", err)
	}
	l.threads = append(l.threads, fork)
}

// end completes a thread.
func (l *leave) end(thread string) {
	l.Helper()
	for range 20 {
		w, err := l.a.Reask(l.Context(), thread)
		if err != nil {
			l.broken("%s: refresh: %v", thread, err)
		}
		var ds []segno.Decision
		for _, i := range w.Interrupts {
			ds = append(ds, approve(i))
		}
		o, err := l.a.Run(l.Context(), agent.Input{Thread: thread, Decide: ds})
		l.note(thread+" goes on", err)
		if err == nil && len(o.Interrupts) == 0 || segno.KindOf(err) == segno.KindInvalid {
			messages, err := l.a.Messages(l.Context(), thread, "")
			if err == nil {
				err = paired(agent.Request{Messages: joined(messages)})
			}
			if err != nil {
				l.broken("%s: %v", thread, err)
			}
			return
		}
	}
	l.broken("%s cannot be brought to its end", thread)
}

// joined puts the results of one message's calls into one message, as models see them.
func joined(messages []agent.Message) (all []agent.Message) {
	for _, m := range messages {
		if n := len(all); n > 0 && m.Role == agent.ToolRole && all[n-1].Role == agent.ToolRole {
			all[n-1].Parts = append(all[n-1].Parts[:len(all[n-1].Parts):len(all[n-1].Parts)], m.Parts...)
			continue
		}
		all = append(all, m)
	}
	return all
}
