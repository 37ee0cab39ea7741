package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// whole is a run from its beginning to its end.
func (r *run) whole(ctx context.Context) (err error) {
	ctx, span := r.traceRun(ctx)
	defer func() { endSpan(span, err) }()
	ctx, r.abort = context.WithCancelCause(ctx)
	defer r.abort(nil)
	if err := r.check(); err != nil {
		return err
	}
	if r.in.Output != nil {
		if err := checkOutput(r.in.Output); err != nil {
			return err
		}
	}
	err = r.begin(ctx)
	defer func() { err = r.depart(ctx, err) }()
	if err != nil {
		return err
	}
	if over, err := r.repeated(); over || err != nil {
		return err
	}
	if err := r.reopen(ctx); err != nil {
		return err
	}
	if err := r.enter(ctx); err != nil {
		return err
	}
	if err := r.findOutput(); err != nil {
		return err
	}
	r.tell(Event{Kind: EventLoaded, Loaded: r.loaded()})
	if err := r.decide(r.in.Decide); err != nil {
		return err
	}
	if r.in.hasPrompt() {
		if err := r.prompted(ctx); err != nil {
			return err
		}
	}
	return r.toEnd(ctx)
}

// depart ends a run, whatever it came to. The error that ended it is what the
// caller should hear; that its files could not be saved then is only heard if there
// is none.
func (r *run) depart(ctx context.Context, err error) error {
	if lost := context.Cause(ctx); segno.KindOf(lost) == segno.KindFenced {
		err = lost
	}
	const saving = 30 * time.Second // of a workspace that may be large
	ctx = context.WithoutCancel(ctx)
	var late error
	if kind := segno.KindOf(err); err != nil && kind != segno.KindConflict && kind != segno.KindFenced {
		longer, cancel := context.WithTimeout(ctx, saving)
		late = r.rest(longer)
		cancel()
	}
	longer, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	if leaving := r.leave(longer); late == nil {
		late = leaving
	}
	r.lease.giveUp(ctx)
	return cmp.Or(err, late)
}

// toEnd makes steps until the turn is over or waits.
func (r *run) toEnd(ctx context.Context) error {
	for {
		waiting, err := r.settle(ctx)
		if errors.Is(err, ErrAnswered) && r.answers {
			// Another process recorded a decision while Config.Answer was asked. It counts.
			r.entries, r.deciding, r.answers = nil, nil, false
			if err := r.reload(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if !r.open {
			return nil // a structured answer ended it
		}
		if waiting {
			if over, err := r.wait(ctx); over || err != nil {
				return err
			}
			continue
		}
		if len(r.undone()) > 0 {
			continue // a decision came meanwhile
		}
		if done, err := r.step(ctx); done || err != nil {
			return err
		}
	}
}

// wait gets decisions from Config.Answer or, if other processes recorded some, from the
// log. Without any it ends the run and reports true.
func (r *run) wait(ctx context.Context) (over bool, err error) {
	if err := r.failedCalls(); err != nil {
		return false, err
	}
	answered, err := r.ask(ctx)
	if answered || err != nil {
		return false, err
	}
	if r.unsaved {
		return false, r.nobodyToAsk()
	}
	open := len(r.state.Interrupts)
	if err := r.takeDecisions(ctx, nil); err != nil {
		return false, err
	}
	if len(r.state.Interrupts) < open {
		return false, nil
	}
	if err := r.rest(ctx); err != nil || r.parent != nil {
		return true, err
	}
	r.tell(Event{Kind: EventInterrupted, Interrupts: slices.Clone(r.state.Interrupts)})
	return true, nil
}

// failedCalls returns an error if the result of a call was lost and the call's tool has
// [LostFail]. The log has the question about the call; see [Agent.Decide].
func (r *run) failedCalls() error {
	if r.parent != nil {
		return nil // the run at the top reports it
	}
	for _, i := range r.state.Interrupts {
		tools := r.Agent
		if i.Via != "" {
			asker := r.askerOf(i.Via)
			if asker == nil {
				continue
			}
			tools = asker.Agent
		}
		if i.Reason != segno.ReasonUnknown || tools.tools[i.Tool].OnLost != LostFail {
			continue
		}
		return segno.NewError(segno.KindRefused, "run agent", string(r.thread), &lostError{open: slices.Clone(r.state.Interrupts), call: i.Call, tool: i.Tool}).WithHint("find out what happened and decide the question " + i.ID + ", or undo the turn")
	}
	return nil
}

// lostError reports that the result of a call was lost and that the call's tool has
// [LostFail], so the run asks no person.
type lostError struct {
	open       []segno.Interrupt
	call, tool string
}

func (e *lostError) Error() string {
	return fmt.Sprintf("the call %s of %s began and its result was lost: it may have happened", e.call, e.tool)
}

// ask asks whoever is there. It reports whether something was decided.
func (r *run) ask(ctx context.Context) (bool, error) {
	if r.Answer == nil {
		return false, nil
	}
	decisions, err := r.Answer(ctx, slices.Clone(r.state.Interrupts))
	if err != nil {
		return false, fmt.Errorf("ask for a decision: %w", err)
	}
	now, given := r.Now(), len(decisions)
	decisions = slices.DeleteFunc(slices.Clone(decisions), func(d segno.Decision) bool {
		i, err := r.pending(d)
		return err == nil && i != nil && i.Late(now)
	})
	if err := r.decide(decisions); err != nil {
		return false, err
	}
	r.answers = len(r.deciding) > 0
	if len(decisions) == given {
		return given > 0, nil
	}
	return true, r.reopen(ctx) // what came too late is asked anew
}

// prompted begins a turn. One that was broken off is ended first, as interrupted.
func (r *run) prompted(ctx context.Context) error {
	if r.open && len(r.in.Decide) > 0 {
		if err := r.nothingWaits(); err != nil {
			return err
		}
		// What was decided is done before the turn is left.
		if _, err := r.settle(ctx); err != nil {
			return err
		}
	}
	if r.open {
		if err := r.abandon(ctx); err != nil {
			return err
		}
	}
	r.turn, r.prompt, r.open = r.head.Turn+1, r.in.Prompt, true
	r.members.set(nil)
	if err := r.keepOutput(); err != nil {
		return err
	}
	if err := r.say(Message{ID: r.in.promptID(), Role: User, Parts: r.in.parts()}); err != nil {
		return err
	}
	return r.commit(ctx, &segno.Checkpoint{Kind: segno.CheckpointStep, Step: r.state.Step, Prompt: r.prompt})
}

// abandon ends a turn that somebody prompts over: calls that were never begun are
// told not to have run. One whose outcome is unknown, or that waits for a
// decision, must be settled first.
func (r *run) abandon(ctx context.Context) error {
	if len(r.state.Interrupts) == 0 {
		if err := r.askUnknown(ctx); err != nil {
			return err
		}
	}
	if err := r.failedCalls(); err != nil {
		return err
	}
	if err := r.nothingWaits(); err != nil {
		return err
	}
	for _, c := range r.undone() {
		if err := r.result(c, Result{Text: "not run: the turn was broken off before it", Error: true}); err != nil {
			return err
		}
	}
	return r.commit(ctx, &segno.Checkpoint{Kind: segno.CheckpointTurn, Step: r.state.Step, Prompt: r.prompt, Interrupted: true})
}

// nothingWaits refuses a prompt over questions.
func (r *run) nothingWaits() error {
	n := len(r.state.Interrupts)
	if n == 0 {
		return nil
	}
	what := "a decision"
	if n > 1 {
		what = fmt.Sprintf("%d decisions", n)
	}
	return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "%s", "it waits for "+what).WithHint("decide, or undo the turn, and prompt again")
}

// nobodyToAsk refuses to wait where no answer could ever come.
func (r *run) nobodyToAsk() error {
	return segno.Errorf(segno.KindRefused, "run agent", r.state.Interrupts[0].Tool, "the call needs leave, and the run is not saved: it cannot wait").WithHint("give the agent a store and the run a thread, or set Answer")
}

func (r *run) loaded() *Loaded {
	var todos []Todo
	if _, err := r.values.Get("todos", &todos); err != nil {
		todos = nil // the tool that needs them says what is wrong
	}
	return &Loaded{Step: r.state.Step, Messages: len(r.msgs), Todos: len(todos), Files: len(r.values.Keys("files/"))}
}

// tell sends an event that is not kept.
func (r *run) tell(e Event) {
	e.Thread, e.Turn, e.Step = r.thread, r.turn, r.state.Step
	e.Agent, e.Time = r.sub, r.Now()
	r.send(e)
}

// tellAll tells what a commit made durable. That a subagent is done its agent tells.
func (r *run) tellAll(events []Event) {
	for _, e := range events {
		if e.Kind != EventDone || r.parent == nil {
			r.send(e)
		}
	}
}

func (r *run) send(e Event) {
	select {
	case r.out <- e:
	case <-r.stop:
	}
}
