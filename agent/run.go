package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// run is one run of a thread. Its parts hold the conversation, an index of the line, the turn,
// the thread's position in the store, and the entries for the next commit.
type run struct {
	*Agent
	conversation
	lineIndex
	turnState
	position
	drafts
	relays

	in        Input
	send      func(Event) // passes an event to the caller of the run
	state     *segno.State
	values    *Values
	members   map[string]segno.CommitID // by call: the heads of its tasks
	completed *timeline.Plan            // the interrupted move that this run completed, or nil
	onlyMoves bool                      // it moves the thread and asks its questions, and runs no call
	noTool    []segno.Answer            // approvals of calls to tools that this agent lacks
	abort     context.CancelCauseFunc   // ends the run
	childWake time.Time                 // the earliest time at which a thread continues that this run waits for
	parent    *run                      // the run that called this subagent, or nil
	sub       string                    // the subagent's name
}

// turnState is the turn that a run works on.
type turnState struct {
	turn      int
	prompt    string
	open      bool // the turn has not ended
	steps     int  // taken by this run
	reminders int  // sent to a model that gave no structured answer
	noSummary bool // the model refused to summarize
	fileTurn  segno.TurnKey
	suspends  bool   // the run ends and the turn does not
	overdue   string // a tool that ignored the end of its context
}

// position is where a thread is in the store.
type position struct {
	thread segno.ThreadID
	head   segno.Head
	at     segno.CommitID // the newest checkpoint at or above the head
	lease  *lease
	forked bool // the thread was forked or moved, and nothing was committed since
	// foreign is set if the messages are those of an agent that keeps its own sessions. Its questions can be read and
	// decided, but the thread cannot be run.
	foreign bool
}

// drafts are the contents of the next commit. Drafting methods return no error: commit returns
// the first one.
type drafts struct {
	entries    []segno.Entry
	draftErr   error
	deciding   map[string]bool // questions that the drafted decisions answer
	fromAnswer bool            // the drafted decisions come from Config.Answer
	committed  bool            // the run has committed something
}

// relays are what goroutines of calls use while they run.
type relays struct {
	relay       chan<- relayed
	direct      func(Event)   // passes an event from the goroutine of the run
	uncommitted []segno.Entry // the values that were changed before the calls began
	savedValues func()        // marks these as saved
	// unsavedSteps are commits of the calls' steps that failed. The store may have applied them, so the next commit tries them
	// again first, with their ids.
	unsavedSteps []segno.Commit
}

// newRun returns a run that no caller listens to.
func (a *Agent) newRun(in Input) *run {
	return &run{Agent: a, in: in, position: position{thread: segno.ThreadID(in.Thread)}, send: func(Event) {}}
}

// execute opens the thread, begins or continues its turn, and takes steps until the turn ends or
// waits. begin prepares the turn; it returns true if nothing is left to do.
func (r *run) execute(ctx context.Context, begin func(context.Context) (over bool, err error)) (err error) {
	ctx, span := r.traceRun(withoutSteps(ctx))
	defer func() { endSpan(span, err) }()
	ctx, r.abort = context.WithCancelCause(ctx)
	defer r.abort(nil)
	err = r.openThread(ctx)
	defer func() { err = r.cleanup(ctx, err) }()
	if err != nil {
		return err
	}
	if over, err := begin(ctx); over || err != nil {
		return err
	}
	return r.loop(ctx)
}

// beginRun applies the input of a run: it repeats an outcome, or records decisions and the
// prompt.
func (r *run) beginRun(ctx context.Context) (over bool, err error) {
	if over, err := r.repeatedInput(); over || err != nil {
		return over, err
	}
	for _, stage := range []func(context.Context) error{r.reaskQuestions, r.beginFileTurn, r.loadOutputSchema} {
		if err := stage(ctx); err != nil {
			return false, err
		}
	}
	r.emit(Event{Kind: EventLoaded, RunEvent: RunEvent{Loaded: r.loaded()}})
	if err := r.decide(r.in.Decide); err != nil || !r.in.hasPrompt() {
		return false, err
	}
	return false, r.beginTurn(ctx)
}

// cleanup saves the files, ends the turn of the files and releases the lease. It returns the
// error that ended the run, or else its own.
func (r *run) cleanup(ctx context.Context, err error) error {
	if lost := context.Cause(ctx); segno.KindOf(lost) == segno.KindFenced {
		err = lost
	}
	const saving = 30 * time.Second // a workspace may be large
	ctx = context.WithoutCancel(ctx)
	var own error
	if kind := segno.KindOf(err); err != nil && kind != segno.KindConflict && kind != segno.KindFenced {
		saveCtx, cancel := context.WithTimeout(ctx, saving)
		own = r.suspendTurn(saveCtx)
		cancel()
	}
	endCtx, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	own = cmp.Or(own, r.endFileTurn(endCtx))
	r.lease.release(ctx)
	return cmp.Or(err, own)
}

// loop takes steps until the turn ends or waits for a decision.
func (r *run) loop(ctx context.Context) error {
	for {
		waiting, err := r.finishCalls(ctx)
		if errors.Is(err, segno.ErrAnswered) && r.fromAnswer {
			// Another process recorded a decision while Config.Answer was called. That decision counts.
			r.drafts = drafts{committed: r.committed}
			if err := r.reload(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil || !r.open { // a structured answer ends the turn
			return err
		}
		if waiting {
			if over, err := r.awaitDecisions(ctx); over || err != nil {
				return err
			}
			continue
		}
		if len(r.openCalls()) > 0 {
			continue // another process recorded a decision
		}
		if done, err := r.step(ctx); done || err != nil {
			return err
		}
	}
}

// awaitDecisions gets decisions from Config.Answer or, if other processes recorded some, from
// the log. If there are none, it returns true, and the run ends.
func (r *run) awaitDecisions(ctx context.Context) (over bool, err error) {
	if err := r.checkLostCalls(); err != nil {
		return false, err
	}
	if r.endWaits() {
		return false, nil
	}
	answered, err := r.callAnswer(ctx)
	if answered || err != nil {
		return false, err
	}
	if r.unsaved {
		needs := "requires approval"
		if r.state.Interrupts[0].Wait > 0 {
			needs = "waits for " + describeWait(r.state.Interrupts)
		}
		return false, segno.Errorf(segno.KindRefused, "run agent", r.state.Interrupts[0].Tool, "the call %s, and the run is not saved: it cannot wait", needs).
			WithHint("give the agent a store and the run a thread, or set Answer")
	}
	if ended, err := r.runChildren(ctx); ended || err != nil {
		return false, err
	}
	open := len(r.state.Interrupts)
	if err := r.adoptDecisions(ctx, nil); err != nil {
		return false, err
	}
	if len(r.state.Interrupts) < open || r.endWaits() {
		return false, nil
	}
	if err := r.suspendTurn(ctx); err != nil || r.parent != nil {
		return true, err
	}
	r.emit(Event{Kind: EventInterrupted, RunEvent: RunEvent{Interrupts: slices.Clone(r.state.Interrupts),
		Wake: earliest(nextWake(r.state.Interrupts), r.childWake)}})
	return true, nil
}

// callAnswer calls Config.Answer. It reports whether the run can continue.
func (r *run) callAnswer(ctx context.Context) (bool, error) {
	if r.Answer == nil {
		return false, nil
	}
	questions := questionsOf(r.state.Interrupts)
	if len(questions) == 0 {
		return false, nil
	}
	decisions, err := r.Answer(ctx, questions)
	if err != nil {
		return false, fmt.Errorf("answer interrupts: %w", err)
	}
	now, given := r.Now(), len(decisions)
	decisions = slices.DeleteFunc(slices.Clone(decisions), func(d segno.Decision) bool {
		i, err := r.pendingInterrupt(d)
		return err == nil && i != nil && i.Late(now)
	})
	if err := r.decide(decisions); err != nil {
		return false, err
	}
	r.fromAnswer = len(r.deciding) > 0
	if len(decisions) == given {
		return given > 0, nil
	}
	return true, r.reaskQuestions(ctx) // some decisions came after their questions expired
}

// checkLostCalls returns an error if the result of a call was lost and its tool has
// [LostFail]. The log has the question about the call; see [Agent.Decide].
func (r *run) checkLostCalls() error {
	if r.parent != nil {
		return nil // the run at the top reports it
	}
	for _, i := range r.state.Interrupts {
		owner := r.Agent
		if i.Via != "" {
			owner = r.taskAgent(i.Via)
		}
		if owner == nil || i.Reason != segno.ReasonUnknown || owner.tools[i.Tool].OnLost != LostFail {
			continue
		}
		return segno.NewError(segno.KindRefused, "run agent", string(r.thread), &lostError{open: slices.Clone(r.state.Interrupts), call: i.Call, tool: i.Tool}).
			WithHint("find out what happened and decide the question " + i.ID + ", or undo the turn")
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

// beginTurn begins a turn. It first ends an unfinished one as interrupted.
func (r *run) beginTurn(ctx context.Context) error {
	if r.open && (len(r.in.Decide) > 0 || r.hasDecidedLostCalls()) {
		if err := r.checkNothingWaits(); err != nil {
			return err
		}
		// The decided calls run before the turn ends.
		if _, err := r.finishCalls(ctx); err != nil {
			return err
		}
	}
	if r.open {
		if err := r.interruptTurn(ctx); err != nil {
			return err
		}
	}
	r.turn, r.prompt, r.open = r.head.Turn+1, r.in.Prompt, true
	r.members = nil
	if err := r.saveOutputSchema(); err != nil {
		return err
	}
	r.draftMessage(Message{ID: r.in.promptID(), Role: User, Parts: r.in.parts()})
	return r.commit(ctx, &segno.Checkpoint{Kind: segno.CheckpointStep, Step: r.state.Step, Prompt: r.prompt})
}

// hasDecidedLostCalls reports whether a person decided about a call whose result was lost, and no run acted on that yet. Without
// the decision, no prompt can end the turn.
func (r *run) hasDecidedLostCalls() bool {
	return slices.ContainsFunc(r.openCalls(), func(c Call) bool {
		answer := r.unusedAnswer(c.ID)
		return answer != nil && answer.Interrupt.Reason == segno.ReasonUnknown
	})
}

// interruptTurn ends a turn because of a new prompt. A call that did not begin gets the result that it
// was not run. interruptTurn returns an error if a call's outcome is unknown or a question is open.
func (r *run) interruptTurn(ctx context.Context) error {
	if len(r.state.Interrupts) == 0 {
		if err := r.askAboutLostCalls(ctx); err != nil {
			return err
		}
	}
	if err := r.checkLostCalls(); err != nil {
		return err
	}
	if err := r.checkNothingWaits(); err != nil {
		return err
	}
	for _, c := range r.openCalls() {
		r.draftResult(c, Result{Text: "not run: the turn was interrupted before", Error: true})
	}
	return r.commit(ctx, r.turnEnd(true))
}

// turnEnd returns the checkpoint that ends the turn.
func (r *run) turnEnd(interrupted bool) *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointTurn, Step: r.state.Step, Prompt: r.prompt, Interrupted: interrupted}
}

// stepEnd returns the checkpoint that ends a step. It has only the title of the prompt, because
// the turn's first and last checkpoints have the whole prompt.
func (r *run) stepEnd() *segno.Checkpoint {
	return &segno.Checkpoint{Kind: segno.CheckpointStep, Step: r.state.Step, Prompt: timeline.Title(r.prompt)}
}

// checkNothingWaits returns an error if questions are open.
func (r *run) checkNothingWaits() error {
	if len(r.state.Interrupts) == 0 {
		return nil
	}
	hint := "decide, or undo the turn, and prompt again"
	if len(questionsOf(r.state.Interrupts)) == 0 {
		hint = "run the thread without a prompt when the wait has ended, or undo the turn, and prompt again"
	}
	return segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "the thread waits for %s", describeWait(r.state.Interrupts)).WithHint(hint)
}

func (r *run) loaded() *Loaded {
	var todos []Todo
	if _, err := r.values.Get("todos", &todos); err != nil {
		todos = nil // the tool that reads them reports the error
	}
	return &Loaded{Step: r.state.Step, Messages: len(r.msgs), Todos: len(todos), Files: len(r.values.Keys("files/"))}
}

// emit sends a live event.
func (r *run) emit(e Event) {
	e.Thread, e.Turn, e.Step = r.thread, r.turn, r.state.Step
	e.Agent, e.Time = r.sub, r.Now()
	r.send(e)
}

// emitCommit sends the events of a commit. For a subagent it leaves out the done event, because
// the agent's own events report the end of the task.
func (r *run) emitCommit(n *segno.Node) {
	send := r.send
	if r.direct != nil {
		send = r.direct
	}
	for _, e := range eventsOf(n, r.sub) {
		if e.Kind != EventDone || r.parent == nil {
			send(e)
		}
	}
}

// draft adds an entry to the next commit and applies it to the state.
func (r *run) draft(e segno.Entry) {
	e.Turn = r.turn
	if e.Time.IsZero() {
		e.Time = r.Now()
	}
	if err := r.state.Apply(&e); err != nil {
		r.failDraft(err)
		return
	}
	r.countShell(&e)
	r.entries = append(r.entries, e)
}

// draftBody drafts an entry with v as its body.
func (r *run) draftBody(e segno.Entry, v any) {
	var err error
	if e.Body, err = segno.Encode(v); err != nil {
		r.failDraft(segno.NewError(segno.KindInvalid, "record "+string(e.Kind), e.ID, err))
		return
	}
	r.draft(e)
}

// draftRecord drafts the entry of a question or a decision.
func (r *run) draftRecord(x interface{ Entry() (segno.Entry, error) }) {
	e, err := x.Entry()
	if err != nil {
		r.failDraft(err)
		return
	}
	r.draft(e)
}

// failDraft records why the next commit fails.
func (r *run) failDraft(err error) { r.draftErr = cmp.Or(r.draftErr, err) }

// takeDraftError returns the error of the drafts, and forgets it.
func (r *run) takeDraftError() error {
	err := r.draftErr
	r.draftErr = nil
	return err
}

// draftMessage drafts a message and adds the logged form to the conversation.
func (r *run) draftMessage(m Message) {
	m.ID = cmp.Or(m.ID, segno.NewID())
	if m.Time.IsZero() {
		m.Time = r.Now()
	}
	// The model receives the message in the form of the log, so that a restart changes nothing.
	var logged Message
	body, err := segno.Encode(m)
	if err == nil {
		err = json.Unmarshal(body, &logged)
	}
	if err != nil {
		r.failDraft(segno.NewError(segno.KindInvalid, "record message", m.ID, err))
		return
	}
	r.add(logged)
	r.show(logged)
	r.draft(segno.Entry{Kind: segno.EntryMessage, ID: m.ID, Name: string(m.Role), Time: m.Time, Body: body})
}

func (r *run) draftNote(name string, v any) {
	r.draftBody(segno.Entry{Kind: segno.EntryNote, Name: name}, v)
}

// The names of notes, which the log stores.
const (
	noteEvent   = "event"   // an [Event]
	noteSummary = "summary" // a [summary]
	noteAnswer  = "answer"  // the structured answer
	noteText    = "said"    // the text beside that answer
)
