package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// steps returns a prompt of n steps, each of which pays once.
func steps(n int) (prompt string, lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprint("bill ", i+1))
		prompt += fmt.Sprintf("call pay {\"line\":%q}\n", lines[i])
	}
	return prompt, lines
}

// TestKilledAtAnyCommit kills a process that runs a turn right before or right after
// any of its commits. The next run completes the turn with each bill paid once, or
// reports the call whose outcome is unknown.
func TestKilledAtAnyCommit(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	prompt, lines := steps(20)
	inTask, few := steps(3)
	inTask = "task payer: " + strings.ReplaceAll(strings.TrimSpace(inTask), "\n", `\n`) + "\nwrite done.txt: yes"
	for _, c := range []struct {
		name   string
		prompt string
		lines  []string
		effect agent.OnLost
		sample int
	}{
		{"ask", prompt, lines, agent.LostAsk, 5},
		{"retry", prompt, lines, agent.LostRetry, 4},
		{"fail", prompt, lines, agent.LostFail, 4},
		{"in a subagent, ask", inTask, few, agent.LostAsk, 4},
		{"in a subagent, retry", inTask, few, agent.LostRetry, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := order{Prompt: c.prompt, Effect: c.effect}
			commits, _ := child(t, "run", t.TempDir(), o)
			if commits < 2*len(c.lines) {
				t.Fatalf("a run of %d bills is %d commits", len(c.lines), commits)
			}
			moments := 2 * commits
			pick := max(1, moments/c.sample)
			if soak.IsWhole() {
				pick = 1
			}
			for m := pick / 2; m < moments; m += pick {
				o.N, o.Commit = m/2+1, [...]string{"before", "after"}[m%2]
				t.Run(fmt.Sprint(o.Commit, " commit ", o.N, " of ", commits), func(t *testing.T) { survives(t, o, c.lines) })
			}
		})
	}
}

func survives(t *testing.T, o order, lines []string) {
	dir := killed(t, o)
	r := after(t, dir, o)
	in := agent.Input{}
	if w, err := r.agent.Status(r.ctx, thread); segno.KindOf(err) == segno.KindNotFound || err == nil && w.Turn == 0 {
		in.Prompt = o.Prompt
	}
	if w, err := r.agent.Status(r.ctx, thread); err == nil && w.Turn == 1 && w.Messages > 0 && isOver(r) {
		r.paid(dir, lines...) // it died after its last commit
		return
	}
	asked := 0
	for {
		all, err := r.try(in)
		if o.Effect == agent.LostFail && err != nil {
			stoppedFor(r, dir, err, lines)
			return
		}
		r.ok(err)
		if all[len(all)-1].Kind == agent.EventDone {
			break
		}
		if asked++; asked > 1 {
			t.Fatalf("it asks about a second call")
		}
		in = agent.Input{Decide: []segno.Decision{r.looked(dir)}}
	}
	if asked > 0 && o.Effect != agent.LostAsk {
		t.Error("it asks about a call that it could make again")
	}
	r.paid(dir, lines...)
	if n := len(r.messages(thread, "")); n < 3 {
		t.Errorf("%d messages", n)
	}
}

// isOver reports whether the turn has ended.
func isOver(r *rig) bool {
	for _, c := range r.heads(thread) {
		return c.Kind == segno.CheckpointTurn
	}
	return false
}

// looked answers a question about a lost call as a user would after reading the
// ledger.
func (r *rig) looked(dir string) segno.Decision {
	r.Helper()
	q := r.question()
	if q.Reason != segno.ReasonUnknown || q.Tool != "pay" {
		r.Fatalf("it asks %+v", q)
	}
	for _, x := range r.ledger(dir) {
		if strings.Contains(string(q.Args), fmt.Sprintf("%q", x.text)) {
			return respond(q, "it was paid")
		}
	}
	return approve(q)
}

// stoppedFor checks that a run which stopped named the call with the unknown outcome, that
// each bill before it is paid once, and that no bill after it is paid.
func stoppedFor(r *rig, dir string, err error, lines []string) {
	r.Helper()
	messages := r.messages(thread, "")
	open := messages[len(messages)-1].Calls()
	if len(open) != 1 || segno.KindOf(err) != segno.KindRefused || !contains(err.Error(), open[0].ID, "pay") {
		r.Fatalf("it stops with %v; the calls without a result are %+v", err, open)
	}
	var e *segno.Error
	if !errors.As(err, &e) {
		r.Errorf("%T", err)
	}
	done := len(r.results(thread))
	got := r.ledger(dir)
	if len(got) != done && len(got) != done+1 {
		r.Errorf("%d bills have a result and %d were paid", done, len(got))
	}
	for i, x := range got {
		if x.text != lines[i] {
			r.Errorf("bill %d is %q, want %q", i+1, x.text, lines[i])
		}
	}
}
