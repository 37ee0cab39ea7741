package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// conflicts checks that an error reports that another run has the thread, and contains the thread's
// head.
func (r *rig) conflicts(err error) {
	r.Helper()
	var c *segno.ConflictError
	if segno.KindOf(err) != segno.KindConflict || !errors.As(err, &c) {
		r.Fatalf("%v: kind %q; want a conflict with the head", err, segno.KindOf(err))
	}
	head, problem := r.store.Head(r.ctx, thread)
	r.ok(problem)
	if c.Actual.Thread != thread || c.Actual.Head != head.Head {
		r.Errorf("the conflict is with %+v, the head is %+v", c.Actual, head)
	}
}

func TestOfTwoRunsOnAThreadOneGetsAConflict(t *testing.T) {
	eachStore(t, func(r *rig) {
		began, goOn := make(chan struct{}), make(chan struct{})
		wait := agent.NewTool("wait", "waits", agent.LostRerun, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
			began <- struct{}{}
			select {
			case <-goOn:
				return "waited", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, wait) })
		first := make(chan error)
		go func() {
			_, err := r.agent.Run(r.ctx, agent.Input{Thread: thread, Prompt: "call wait {}"})
			first <- err
		}()
		<-began
		other := agent.New(r.config)
		for name, second := range map[string]func() error{
			"prompt":  func() error { _, err := other.Run(r.ctx, agent.Input{Thread: thread, Prompt: "say hi"}); return err },
			"go on":   func() error { _, err := r.agent.Run(r.ctx, agent.Input{Thread: thread}); return err },
			"undo":    func() error { _, err := other.Undo(r.ctx, thread, 1); return err },
			"restore": func() error { _, err := other.Restore(r.ctx, thread, r.heads(thread)[0].ID); return err },
		} {
			if err := second(); err == nil {
				r.Errorf("%s beside a run succeeds", name)
			} else {
				r.conflicts(err)
			}
		}
		// A reader does not block the run.
		if m := r.messages(thread, ""); len(m) != 1 {
			r.Errorf("%d messages, want 1", len(m))
		}
		if _, err := other.Fork(r.ctx, r.heads(thread)[0].ID, "fork"); err != nil {
			r.Errorf("fork beside a run: %v", err)
		}
		close(goOn)
		r.ok(<-first)
		r.answers("waited")
		r.one(r.prompt("say hi"), agent.EventDone)
		if m := r.messages(thread, ""); len(m) != 6 {
			r.Errorf("%d messages, want 6", len(m))
		}
	})
}

// startHolding starts a process that runs a tool until it receives a line or is killed.
func startHolding(t *testing.T, dir string) (*exec.Cmd, io.WriteCloser) {
	t.Helper()
	cmd := start(t, "hold", dir, order{})
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if text, err := bufio.NewReader(out).ReadString('\n'); text != "waiting\n" {
		t.Fatal(text, err)
	}
	return cmd, in
}

// TestSecondProcessOnThreadGetsConflict has another process run a tool. Once that process
// is killed, the thread is free.
func TestSecondProcessOnThreadGetsConflict(t *testing.T) {
	dir := t.TempDir()
	cmd, in := startHolding(t, dir)
	r := after(t, dir, order{})
	_, err := r.try(agent.Input{Prompt: "say hi"})
	r.conflicts(err)
	_, err = r.try(agent.Input{})
	r.conflicts(err)
	if m := r.messages(thread, ""); len(m) != 1 {
		t.Errorf("%d messages, want 1", len(m))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	_ = in.Close()
	wait := agent.NewTool("wait", "waits", agent.LostRerun, func(context.Context, *agent.Invocation, struct{}) (string, error) { return "waited", nil })
	r.with(func(c *agent.Config) { c.Tools = append(c.Tools, wait) })
	r.finish()
	r.answers("waited")
}

func TestExitingProcessReleasesThread(t *testing.T) {
	dir := t.TempDir()
	cmd, in := startHolding(t, dir)
	_, _ = io.WriteString(in, "\n")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	r := after(t, dir, order{})
	r.answers("waited")
	r.one(r.prompt("say hi"), agent.EventDone)
}

// TestOfTwoProcessesThatDecideOneWins decides a question first in another process, and then in this
// one, which has read the same question.
func TestOfTwoProcessesThatDecideOneWins(t *testing.T) {
	dir := t.TempDir()
	o := order{Prompt: pay, Effect: agent.LostAsk, Ask: true}
	child(t, "run", dir, o)
	r := after(t, dir, o)
	q := r.question()
	child(t, "run", dir, order{Decide: []segno.Decision{approve(q)}, Effect: agent.LostAsk, Ask: true})
	r.refused(decisions(reject(q, "no")), segno.KindConflict, q.ID, "approve")
	r.paid(dir, "rent")
	r.answers("paid rent")
}

// TestForeignCommitEndsRun has another writer move the thread's head during
// a run, as a writer without leases could.
func TestForeignCommitEndsRun(t *testing.T) {
	eachStore(t, func(r *rig) {
		meddle := agent.NewTool("meddle", "commits beside the run", agent.LostRerun, func(ctx context.Context, _ *agent.Invocation, _ struct{}) (string, error) {
			head, err := r.store.Head(ctx, thread)
			if err != nil {
				return "", err
			}
			_, err = r.store.Commit(ctx, segno.Commit{ID: "meddler", Thread: thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointSave}})
			return "meddled", err
		})
		r.with(func(c *agent.Config) { c.Tools = append(c.Tools, meddle) })
		all, err := r.try(agent.Input{Prompt: "call meddle {}"})
		r.conflicts(err)
		if len(all.of(agent.EventToolResult)) > 0 {
			r.Error("a result is told that is not in the store")
		}
	})
}

func TestOfManyFirstRunsOneMakesTheThread(t *testing.T) {
	eachStore(t, func(r *rig) {
		const many = 6
		errs := make(chan error)
		for range many {
			go func() {
				_, err := agent.New(r.config).Run(r.ctx, agent.Input{Thread: thread, Prompt: "say hi"})
				errs <- err
			}()
		}
		done := 0
		for range many {
			if err := <-errs; err == nil {
				done++
			} else if segno.KindOf(err) != segno.KindConflict {
				r.Errorf("a run that was too late ends with %v", err)
			}
		}
		if n := len(r.messages(thread, "")); done == 0 || n != 2*done {
			r.Errorf("%d runs were done and left %d messages", done, n)
		}
	})
}

func TestOfManyProcessesThatApproveOneMakesTheCall(t *testing.T) {
	dir := t.TempDir()
	o := order{Prompt: pay, Effect: agent.LostAsk, Ask: true}
	child(t, "run", dir, o)
	r := after(t, dir, o)
	d := approve(r.question())
	var all []*exec.Cmd
	for n := range 4 {
		d.Actor = fmt.Sprint("person ", n)
		o = order{Decide: []segno.Decision{d}, Effect: agent.LostAsk, Ask: true}
		cmd := start(t, "run", dir, o)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	won := 0
	for _, cmd := range all {
		if cmd.Wait() == nil {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d processes made the call", won)
	}
	r.paid(dir, "rent")
	r.answers("paid rent")
}
