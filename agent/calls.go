package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dalsegno/segno"
)

// job is a call that runs now.
type job struct {
	Call
	tool      Tool
	key       string        // idempotency key
	note      string        // for the model, before the result
	newIntent bool          // the intent is drafted or committed by this run, so no earlier attempt exists
	isRetry   bool          // an earlier attempt under the same key may have succeeded
	resumes   bool          // a wait of the call has ended
	stopped   stoppedAtStep // where the earlier attempt stopped, if this process knows that

	at   intentAt         // its committed intent
	past map[int]pastStep // the steps that an earlier run of the call made
	last int              // the greatest number in past
}

// finishCalls runs the open calls that need no decision and records their results. It reports
// whether decisions are missing. Its first commit contains the message, decisions, questions
// and intents; the second one contains the results. If no call has an effect, one commit
// contains all of them.
func (r *run) finishCalls(ctx context.Context) (waiting bool, err error) {
	calls := r.openCalls()
	if len(calls) == 0 || r.draftErr != nil {
		return false, r.draftErr
	}
	jobs := r.planCalls(ctx, calls)
	if err := r.commitPlan(ctx, jobs); err != nil {
		return false, err
	}
	before := maps.Clone(r.members)
	failed := r.runCalls(ctx, jobs)
	if failed == nil && len(r.openCalls()) == 0 && r.structuredAnswer() != nil {
		return false, r.endTurn(ctx)
	}
	if len(r.entries) > 0 || len(r.unsavedSteps) > 0 || !maps.Equal(before, r.members) {
		if err := r.commit(ctx, r.stepEnd()); err != nil {
			return false, errors.Join(failed, err)
		}
	}
	if failed == nil {
		failed = r.checkUnfinished(ctx)
	}
	return len(r.state.Interrupts) > 0 && len(r.openCalls()) > 0, failed
}

// commitPlan commits the drafts before calls run, if a call has an effect or a question is new.
func (r *run) commitPlan(ctx context.Context, jobs []job) error {
	hasEffect := slices.ContainsFunc(jobs, func(j job) bool { return j.tool.OnLost != LostRerun || j.resumes })
	if !hasEffect && (len(r.state.Interrupts) == 0 || len(r.entries) == 0) {
		return r.draftErr
	}
	var cp *segno.Checkpoint
	if len(jobs) == 0 {
		cp = r.stepEnd()
	}
	return r.commit(ctx, cp)
}

// checkUnfinished returns the error of a run that cannot continue after its calls.
func (r *run) checkUnfinished(ctx context.Context) error {
	if len(r.state.Interrupts) == 0 && len(r.noTool) > 0 {
		i := r.noTool[0].Interrupt
		what := "approved call"
		if i.Wait > 0 {
			what = "waiting call"
		}
		return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "the agent has no tool %q for the %s %s", i.Tool, what, i.Call).
			WithHint("run the thread with an agent that has the tool; nothing is lost")
	}
	if err := ctx.Err(); err != nil {
		if r.overdue != "" {
			err = fmt.Errorf("%w; the tool %q ignored the end of its context", err, r.overdue)
		}
		return segno.NewError(segno.KindCancelled, "run agent", string(r.thread), err)
	}
	return nil
}

// planCalls drafts an intent, a question or a result for each call. It returns the calls that
// run now.
func (r *run) planCalls(ctx context.Context, calls []Call) (jobs []job) {
	r.noTool = nil
	for _, c := range calls {
		intent, answer := r.intent(c.ID), r.unusedAnswer(c.ID)
		j := job{Call: c, tool: r.toolOf(c.Name), key: keyOf(intent)}
		j.stopped = r.registry.stoppedAt(r.thread, j.key)
		ready := false
		switch action := nextAction(r.callStateOf(c, intent, answer)); action {
		case actionWait:
		case actionNoTool:
			r.noTool = append(r.noTool, *cmp.Or(r.endedWait(c.ID), answer))
		case actionResume:
			ready = r.resumeCall(ctx, &j)
		case actionDecided:
			ready = r.applyDecision(&j, answer)
		case actionBegin, actionRetry, actionAsk:
			ready = r.recoverCall(&j, intent, action)
		case actionStart:
			ready = r.startCall(ctx, &j)
		}
		if ready {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// startCall checks a new call. It drafts the call's intent, or else a result or a question.
func (r *run) startCall(ctx context.Context, j *job) (ready bool) {
	if invalid := r.invalid(j.Call); invalid != "" {
		r.draftResult(j.Call, Result{Text: invalid, Error: true})
		return false
	}
	if r.Approve != nil && j.Name != answerName {
		if approval := r.Approve(ctx, j.Call); approval != nil {
			r.draftRecord(r.newInterrupt(j.Call, *approval))
			return false
		}
	}
	r.draftIntent(j, false)
	return true
}

// toolOf returns the tool that a call names. The tool for the structured answer has no Run:
// the loop handles it.
func (r *run) toolOf(name string) Tool {
	if name == answerName && r.in.Output != nil {
		return Tool{OnLost: LostRerun}
	}
	return r.tools[name]
}

// applyDecision prepares a call according to its decision, or drafts a result in place of the call.
func (r *run) applyDecision(j *job, a *segno.Answer) (ready bool) {
	d := a.Decision
	actor := cmp.Or(d.Actor, "the user")
	switch d.Kind {
	case segno.Approve:
		j.Args = a.Interrupt.Args // an approval is valid for these arguments only
		r.draftIntent(j, true)
		return true
	case segno.Edit:
		j.Args = d.Args
		j.note = "run with other arguments, as " + actor + " decided: " + string(d.Args)
		if invalid := r.invalid(j.Call); invalid != "" {
			r.draftCallResult(j, Result{Text: "edited arguments: " + invalid, Error: true})
			return false
		}
		r.draftIntent(j, true)
		return true
	case segno.Respond:
		r.draftCallResult(j, Result{Text: d.Text})
		return false
	}
	text := "rejected by " + actor
	if a.Interrupt.Reason == segno.ReasonUnknown {
		text = "unknown: the call may have happened or not, and is not run again"
	}
	if d.Text != "" {
		text += ": " + d.Text
	}
	r.draftCallResult(j, Result{Text: text, Error: true})
	return false
}

// resumeCall prepares a call whose wait has ended. Its new intent marks the decisions about its waits
// as used: if the call is lost after this, its tool's policy applies. If the thread was moved since, the
// call continues on another line, too, and has another key here.
func (r *run) resumeCall(ctx context.Context, j *job) (ready bool) {
	w := r.endedWait(j.ID).Interrupt
	moved, err := r.isMoved(ctx, segno.EntryDecision, w.ID)
	if err != nil {
		r.failDraft(err)
		return false
	}
	if j.key, j.resumes = cmp.Or(w.CallKey, j.key), true; moved {
		j.key = segno.NewID()
	}
	r.useArgs(j, w.Args)
	r.draftIntent(j, true)
	return true
}

// useArgs sets the arguments of a call that was approved with these arguments.
func (r *run) useArgs(j *job, args json.RawMessage) {
	if j.Args = args; segno.HashArgs(j.Args) != segno.HashArgs(r.originalArgs(j.ID)) {
		j.note = "run with edited arguments: " + string(j.Args)
	}
}

// recoverCall continues a call that has an intent and no result, as nextAction decided.
func (r *run) recoverCall(j *job, intent *intentBody, action callAction) (ready bool) {
	if intent.Input != nil {
		r.useArgs(j, intent.Input)
	}
	switch action {
	case actionBegin:
		j.newIntent = !j.stopped.isWait
		return true
	case actionRetry:
		j.isRetry = !j.tool.isTask // a task continues where it stopped
		return true
	}
	r.draftRecord(r.newLostInterrupt(j.Call, ""))
	return false
}

// askAboutLostCalls drafts and commits a question about every call with an unknown outcome.
// It returns an error if a call could continue without a question.
func (r *run) askAboutLostCalls(ctx context.Context) error {
	for _, c := range r.openCalls() {
		intent := r.intent(c.ID)
		if intent == nil {
			continue
		}
		j := job{Call: c, tool: r.tools[c.Name]}
		action := nextAction(r.callStateOf(c, intent, nil))
		if action == actionResume || action == actionNoTool || r.recoverCall(&j, intent, action) {
			return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "a call of the previous turn is not finished").
				WithHint("run the thread without a prompt first, or undo the turn")
		}
	}
	return r.commit(ctx, nil)
}

// runCalls runs calls concurrently and drafts their results. It returns an error that ends
// the run; even then it drafts the results of the other calls.
func (r *run) runCalls(ctx context.Context, jobs []job) (err error) {
	outcomes := make([]callOutcome, len(jobs))
	before := r.values.snapshot() // each subagent of the step starts with these values
	for i := range jobs {
		j := &jobs[i]
		j.at = r.intentAt(j.ID)
		if j.past, j.last, err = r.pastSteps(j.ID); err != nil {
			return err
		}
	}
	r.uncommitted, r.savedValues = r.values.changes()
	var calls, watcher sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(len(jobs)))
	slots := make(chan struct{}, max(1, r.Parallel))
	running := &runningCalls{done: make(chan struct{}), calls: map[string]Call{}}
	r.relayEvents(func() {
		watcher.Go(func() { r.nameOverdue(ctx, running) })
		for i := range jobs {
			slots <- struct{}{}
			if outcomes[i].notBegun = ctx.Err() != nil; outcomes[i].notBegun {
				left.Add(-1)
				<-slots
				continue
			}
			calls.Go(func() {
				running.add(jobs[i].Call)
				o := r.runCall(ctx, jobs[i], before)
				running.remove(jobs[i].Call)
				if left.Add(-1) > 0 && o.waits != nil {
					o.recorded, o.err = true, r.recordWait(ctx, *o.waits) // the other calls may take long
				}
				outcomes[i] = o
				<-slots
			})
		}
		calls.Wait()
		close(running.done)
		watcher.Wait()
	})
	revertUnknown(outcomes)
	for i := range outcomes {
		if task := outcomes[i].child; task != nil && task.head.Head != "" {
			r.setMember(jobs[i].ID, task)
		}
		err = cmp.Or(err, r.draftOutcome(&jobs[i], &outcomes[i]), r.takeDraftError())
	}
	return err
}

// recordWait commits what a call waits for while other calls run.
func (r *run) recordWait(ctx context.Context, w segno.Interrupt) error {
	return r.inLoop(func() error {
		r.draftRecord(w)
		return r.commitDuringCalls(ctx)
	})
}

// relayed is an event for the caller of the run, or work for the goroutine of the run.
type relayed struct {
	event Event
	do    func() error
	done  chan error // of do
}

// inLoop runs do in the goroutine of the run, while calls run. It is called by goroutines of calls.
func (r *run) inLoop(do func() error) error {
	x := relayed{do: do, done: make(chan error, 1)}
	r.relay <- x
	return <-x.done
}

// relayEvents runs work in another goroutine. Goroutines of work may send events, and call inLoop.
// relayEvents passes the events to the caller of the run in the caller's goroutine, as an iterator
// requires.
func (r *run) relayEvents(work func()) {
	relay, send := make(chan relayed), r.send
	r.relay, r.direct = relay, send
	r.send = func(e Event) { relay <- relayed{event: e} }
	go func() {
		defer close(relay)
		work()
	}()
	complete := false
	defer func() {
		if !complete { // the caller panicked on an event
			r.abort(nil)
		}
		for x := range relay { // until no goroutine sends
			if x.do != nil {
				x.done <- segno.NewError(segno.KindCancelled, "run agent", string(r.thread), nil)
			}
		}
		r.send, r.relay, r.direct = send, nil, nil
	}()
	for x := range relay {
		if x.do == nil {
			send(x.event)
			continue
		}
		x.done <- r.runRelayed(x)
	}
	complete = true
}

// runRelayed runs work for inLoop. If the caller of the run panics on an event of the work, the
// goroutine in inLoop continues, too.
func (r *run) runRelayed(x relayed) (err error) {
	complete := false
	defer func() {
		if !complete {
			x.done <- segno.NewError(segno.KindCancelled, "run agent", string(r.thread), nil)
		}
	}()
	err = x.do()
	complete = true
	return err
}

// draftOutcome drafts the outcome of a call: a result, a question, or the removal of its intent.
// It returns the error of a call that ends the run.
func (r *run) draftOutcome(j *job, o *callOutcome) error {
	var w *waitError
	switch {
	case errors.As(o.err, &w):
		r.adoptQuestions(j.ID, w)
	case o.err == nil && o.waits != nil:
		if !o.recorded {
			r.draftRecord(*o.waits)
		}
	case o.notBegun && (j.newIntent || j.resumes) && r.intent(j.ID) != nil:
		// NotStarted cancels the intent. If there is an older intent, an earlier attempt may have run,
		// except before a wait: the call then waits again for its next run.
		r.draft(segno.Entry{Kind: segno.EntryResult, ID: j.ID, Name: j.Name, Body: json.RawMessage(segno.NotStarted)})
		return o.err
	case o.err != nil:
		return o.err
	case o.unknown && o.failed != "":
		r.draftRecord(r.newLostInterrupt(j.Call, o.failed))
	case !o.notBegun && !o.unknown:
		return r.draftToolOutcome(j, o)
	}
	return nil
}

// revertUnknown reverts the values that calls without a known outcome changed. One call may
// have overwritten the value of another, so it repeats until nothing more can be reverted.
func revertUnknown(outcomes []callOutcome) {
	for more := true; more; {
		more = false
		for _, o := range outcomes {
			more = o.state != nil && o.state.revert() || more
		}
	}
}

type intentBody struct {
	Title string          `json:"title"` // short, for lists
	Kind  string          `json:"kind"`  // the tool's policy
	Input json.RawMessage `json:"input"`
	Key   string          `json:"key"`
}

// draftIntent drafts a call's intent if the call has an effect. again is set for an approved
// call: its new intent marks the approval as used, even if there is an older intent.
func (r *run) draftIntent(j *job, again bool) {
	if j.tool.OnLost == LostRerun || !again && r.intent(j.ID) != nil {
		return
	}
	j.newIntent = r.intent(j.ID) == nil
	r.draftBody(segno.Entry{Kind: segno.EntryIntent, ID: j.ID, Name: j.Name},
		intentBody{Title: j.Name, Kind: cmp.Or(string(j.tool.OnLost), "ask"), Input: j.Args, Key: j.key})
}

// intent returns the open intent of a call, or nil.
func (r *run) intent(call string) *intentBody {
	for _, e := range r.state.Unknown {
		if e.ID == call {
			b := new(intentBody)
			if json.Unmarshal(e.Body, b) != nil {
				b = new(intentBody) // the intent counts even if its body is damaged
			}
			return b
		}
	}
	return nil
}

// keyOf returns the idempotency key in an intent. Without an intent it returns a new key: a call
// that runs again after an undo must have another one.
func keyOf(intent *intentBody) string {
	if intent != nil && intent.Key != "" {
		return intent.Key
	}
	return segno.NewID()
}

// invalid returns why a call cannot run, or "".
func (r *run) invalid(c Call) string {
	if c.Name == answerName && r.in.Output != nil {
		return parseSchema(r.in.Output).invalid(c.Args)
	}
	if _, ok := r.tools[c.Name]; !ok {
		return fmt.Sprintf("unknown tool %q", c.Name)
	}
	return r.schemas[c.Name].invalid(c.Args)
}
