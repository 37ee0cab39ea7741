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

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// job is a call that is to be made now.
type job struct {
	Call
	tool Tool
	key  string
	note string // what the model should know of it beside the result
	new  bool   // its intent is this step's: nobody began it before
	// retried: an earlier attempt under the same key may have succeeded.
	retried bool
}

// undone are the calls of the newest assistant message that have no result, in
// order.
func (r *run) undone() (calls []Call) {
	done := map[string]bool{}
	for i := len(r.msgs) - 1; i >= 0; i-- {
		m := &r.msgs[i]
		for _, p := range m.Parts {
			if p.Result != nil {
				done[p.Result.Call] = true
			}
		}
		if m.Role != Assistant {
			continue
		}
		for _, c := range m.Calls() {
			if !done[c.ID] {
				calls = append(calls, c)
			}
		}
		return calls
	}
	return nil
}

// settle brings the calls of the newest message to their end, as far as nobody
// must be asked. It reports whether somebody must. The first commit holds what is
// about to happen: the message, decisions, questions and intents; the second what
// came of it. If nothing can be lost between the two they are one.
func (r *run) settle(ctx context.Context) (waiting bool, err error) {
	calls := r.undone()
	if len(calls) == 0 {
		return false, nil
	}
	r.missing = nil
	jobs, err := r.plan(ctx, calls)
	if err != nil {
		return false, err
	}
	effects := false
	for _, j := range jobs {
		effects = effects || j.tool.OnLost != LostRerun
	}
	asks := len(r.state.Interrupts) > 0
	if effects || asks && len(r.entries) > 0 {
		var cp *segno.Checkpoint
		if len(jobs) == 0 {
			cp = r.stepEnd()
		}
		if err := r.commit(ctx, cp); err != nil {
			return false, err
		}
	}
	before := r.members.get()
	failed := r.make(ctx, jobs)
	if failed == nil && len(r.undone()) == 0 && r.answered() != nil {
		return false, r.finish(ctx)
	}
	if len(r.entries) > 0 || !maps.Equal(before, r.members.get()) {
		if err := r.commit(ctx, r.stepEnd()); err != nil {
			return false, errors.Join(failed, err)
		}
	}
	if failed == nil && len(r.state.Interrupts) == 0 {
		failed = r.missingTool()
	}
	if failed == nil && ctx.Err() != nil {
		failed = segno.NewError(segno.KindCancelled, "run agent", string(r.thread), ctx.Err())
	}
	return len(r.state.Interrupts) > 0 && len(r.undone()) > 0, failed
}

// missingTool is the error of a run that cannot make a call that was approved, because
// the agent does not have its tool.
func (r *run) missingTool() error {
	if len(r.missing) == 0 {
		return nil
	}
	i := r.missing[0].Interrupt
	return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "the agent has no tool %q for the approved call %s", i.Tool, i.Call).WithHint("run the thread with an agent that has the tool; the approval stands")
}

// stepEnd ends a step. The prompt stands in full where the turn begins and ends.
func (r *run) stepEnd() *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointStep, Step: r.state.Step, Prompt: timeline.Title(r.prompt)}
}

// plan works out what happens to each call: it is made, asked about, or has its
// result already.
func (r *run) plan(ctx context.Context, calls []Call) (jobs []job, err error) {
	for _, c := range calls {
		j, ready, err := r.planOne(ctx, c)
		if err != nil {
			return nil, err
		}
		if ready {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func (r *run) planOne(ctx context.Context, c Call) (j job, ready bool, err error) {
	intent := r.intent(c.ID)
	answer := r.answer(c.ID)
	j = job{Call: c, tool: r.toolOf(c.Name), key: r.keyOf(intent)}
	switch {
	case r.waits(c.ID) && !r.resumes(j, intent):
		return j, false, nil
	case answer != nil:
		return r.decided(j, answer, intent)
	case intent != nil:
		return r.lost(j)
	}
	if wrong := r.wrong(c); wrong != "" {
		return j, false, r.result(c, Result{Text: wrong, Error: true})
	}
	if r.Approve != nil && c.Name != answerName {
		if leave := r.Approve(ctx, c); leave != nil {
			return j, false, r.question(r.interrupt(c, *leave))
		}
	}
	return j, true, r.intend(&j, false)
}

// toolOf returns the tool that a call names. The structured answer is given through a
// tool that only the loop knows; it has no consequences.
func (r *run) toolOf(name string) Tool {
	if name == answerName && r.in.Output != nil {
		return Tool{OnLost: LostRerun}
	}
	return r.tools[name]
}

// resumes reports whether a call that waits in a subagent has something to go on
// with: one of its questions was answered.
func (r *run) resumes(j job, intent *intentBody) bool {
	if intent == nil || !j.tool.isTask {
		return false
	}
	for _, a := range r.state.Answers {
		if a.Interrupt.Via == j.ID && !a.Used {
			return true
		}
	}
	return slices.ContainsFunc(r.state.Interrupts, func(i segno.Interrupt) bool {
		return i.Via == j.ID && i.Late(r.Now())
	})
}

// decided does with a call what somebody decided.
func (r *run) decided(j job, a *segno.Answer, intent *intentBody) (job, bool, error) {
	if d := a.Decision.Kind; j.tool.Run == nil && (d == segno.Approve || d == segno.Edit) {
		r.missing = append(r.missing, *a) // the decision stays for a run that has the tool
		return j, false, nil
	}
	switch d := a.Decision; d.Kind {
	case segno.Edit:
		j.Args = d.Args
		j.note = "made with other arguments, as " + orSomebody(d.Actor) + " decided: " + string(d.Args)
		if wrong := r.wrong(j.Call); wrong != "" {
			return j, false, r.resultOf(j, Result{Text: "edited arguments: " + wrong, Error: true})
		}
		fallthrough
	case segno.Approve:
		if intent != nil && intent.Input != nil {
			j.Args = intent.Input
		}
		return j, true, r.intend(&j, true)
	case segno.Respond:
		return j, false, r.resultOf(j, Result{Text: d.Text})
	default:
		text := "rejected by " + orSomebody(d.Actor)
		if a.Interrupt.Reason == segno.ReasonUnknown {
			text = "unknown: it may have happened or not, and is not made again"
		}
		if d.Text != "" {
			text += ": " + d.Text
		}
		return j, false, r.resultOf(j, Result{Text: text, Error: true})
	}
}

func orSomebody(actor string) string {
	if actor == "" {
		return "the user"
	}
	return actor
}

// lost goes by the tool's policy with a call whose intent has no result.
func (r *run) lost(j job) (job, bool, error) {
	if intent := r.intent(j.ID); intent.Input != nil {
		if j.Args = intent.Input; segno.HashArgs(j.Args) != segno.HashArgs(r.asCalled(j.ID)) {
			j.note = "made with other arguments, as was decided: " + string(j.Args)
		}
	}
	if j.tool.Run != nil && r.registry.isUnbegun(r.intentAt(j.ID)) {
		j.new = true
		return j, true, nil
	}
	if j.tool.OnLost == LostRetry {
		j.retried = !j.tool.isTask
		return j, true, nil
	}
	return j, false, r.question(r.unknown(j.Call, ""))
}

// intentAt names a call's intent on the line.
func (r *run) intentAt(call string) intentAt {
	if n := r.asked[string(segno.EntryIntent)+call]; n != nil {
		return intentAt{n.ID, call}
	}
	return intentAt{}
}

// asCalled are the arguments of an open call as the model wrote them.
func (r *run) asCalled(call string) json.RawMessage {
	for _, c := range r.undone() {
		if c.ID == call {
			return c.Args
		}
	}
	return nil
}

// askUnknown asks about every call whose outcome is unknown and whose policy it is
// to ask.
func (r *run) askUnknown(ctx context.Context) error {
	for _, c := range r.undone() {
		if r.intent(c.ID) == nil {
			continue
		}
		j := job{Call: c, tool: r.tools[c.Name]}
		if _, ready, err := r.lost(j); err != nil {
			return err
		} else if ready {
			return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "a call of the turn before is not finished").WithHint("run the thread without a prompt first, or undo the turn")
		}
	}
	return r.commit(ctx, nil)
}

// make makes calls, several at once, and drafts what came of each. An error is one that
// ends the run; what the other calls did is drafted all the same.
func (r *run) make(ctx context.Context, jobs []job) (err error) {
	outcomes := make([]outcome, len(jobs))
	before := r.values.snapshot() // what every subagent of the step begins with
	var wg sync.WaitGroup
	room := make(chan struct{}, max(1, r.Parallel))
	for i := range jobs {
		room <- struct{}{}
		if ctx.Err() != nil {
			outcomes[i].unbegun = true
			<-room
			continue
		}
		wg.Go(func() {
			outcomes[i] = r.call(ctx, jobs[i], before)
			<-room
		})
	}
	wg.Wait()
	takeBack(outcomes)
	for i, o := range outcomes {
		var w *waitError
		switch {
		case errors.As(o.err, &w):
			o.err = r.bubble(jobs[i], w)
		case o.err != nil:
		case o.unbegun:
			o.err = r.withdraw(jobs[i])
		case o.unknown && o.failed != "":
			o.err = r.question(r.unknown(jobs[i].Call, o.failed))
		case o.unknown:
		default:
			o.err = cmp.Or(r.takeFiles(&o), r.outcome(jobs[i], o))
		}
		err = cmp.Or(err, o.err) // one is enough to end a run, and to say why
	}
	return err
}

// takeBack takes back what calls changed whose ends were not heard. One may have changed
// what another had, so it goes on until nothing more comes back.
func takeBack(outcomes []outcome) {
	for more := true; more; {
		more = false
		for _, o := range outcomes {
			more = o.state != nil && o.state.takeBack() || more
		}
	}
}

// question drafts an interrupt.
func (r *run) question(i segno.Interrupt) error {
	e, err := i.Entry()
	if err != nil {
		return err
	}
	return r.draft(e)
}

// intentBody is what an intent records of a call.
type intentBody struct {
	Title string          `json:"title"` // a short one for lists
	Kind  string          `json:"kind"`  // the tool's policy
	Input json.RawMessage `json:"input"`
	Key   string          `json:"key"`
}

// intend drafts a call's intent, if it has an effect. again is a call that was
// allowed: what allowed it is used up even if an intent is there already.
func (r *run) intend(j *job, again bool) error {
	if j.tool.OnLost == LostRerun || !again && r.intent(j.ID) != nil {
		return nil
	}
	body, err := segno.Encode(intentBody{Title: j.Name, Kind: cmp.Or(string(j.tool.OnLost), "ask"), Input: j.Args, Key: j.key})
	if err != nil {
		return fmt.Errorf("record intent: %w", err)
	}
	j.new = r.intent(j.ID) == nil
	return r.draft(segno.Entry{Kind: segno.EntryIntent, ID: j.ID, Name: j.Name, Body: body})
}

// withdraw takes back the intent of a call that was never begun.
func (r *run) withdraw(j job) error {
	if !j.new {
		return nil // an earlier attempt may have come to something
	}
	return r.draft(segno.Entry{Kind: segno.EntryResult, ID: j.ID, Name: j.Name, Body: json.RawMessage(segno.NotStarted)})
}

// intent returns what a call's open intent records, or nil if it has none.
func (r *run) intent(call string) *intentBody {
	for _, e := range r.state.Unknown {
		if e.ID == call {
			b := new(intentBody)
			if json.Unmarshal(e.Body, b) != nil {
				b = new(intentBody) // it is there all the same
			}
			return b
		}
	}
	return nil
}

// keyOf is a call's idempotency key: the one its intent recorded, else a new one, so
// that a call made anew after an undo has another.
func (r *run) keyOf(intent *intentBody) string {
	if intent != nil && intent.Key != "" {
		return intent.Key
	}
	return segno.NewID()
}

// wrong says what is wrong with a call, or "".
func (r *run) wrong(c Call) string {
	if c.Name == answerName && r.in.Output != nil {
		return outputSchema(r.in.Output).wrong(c.Args)
	}
	if _, ok := r.tools[c.Name]; !ok {
		return fmt.Sprintf("there is no tool %q", c.Name)
	}
	return r.schemas[c.Name].wrong(c.Args)
}
