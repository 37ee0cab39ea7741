package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Approver returns the request for approval of a call, or nil for a call that needs no approval.
type Approver func(ctx context.Context, c Call) *Approval

// Approval describes a request for a decision about a call.
type Approval struct {
	Question string
	Allowed  []segno.DecisionKind // the decisions that are allowed; empty allows all
	Within   time.Duration        // the request expires after this time; 0 is never
}

// RequireApproval returns an approver for every call of these tools.
func RequireApproval(tools ...string) Approver {
	return func(_ context.Context, c Call) *Approval {
		if slices.Contains(tools, c.Name) {
			return &Approval{}
		}
		return nil
	}
}

var allDecisions = []segno.DecisionKind{segno.Approve, segno.Edit, segno.Reject, segno.Respond}

// newInterrupt returns the question about a call.
func (r *run) newInterrupt(c Call, a Approval) segno.Interrupt {
	i := segno.Interrupt{ID: segno.NewID(), Thread: r.thread, Call: c.ID, Tool: c.Name, Args: c.Args, ArgsHash: segno.HashArgs(c.Args),
		Reason: segno.ReasonApproval, Question: a.Question, Allowed: a.Allowed, Asked: r.Now()}
	if len(i.Allowed) == 0 {
		i.Allowed = allDecisions
	}
	if a.Within > 0 {
		i.Expires = i.Asked.Add(a.Within)
	}
	return i
}

// newLostInterrupt returns the question about a call with a lost result. failed is the
// reason why a retry failed, "" if there was no retry.
func (r *run) newLostInterrupt(c Call, failed string) segno.Interrupt {
	if failed != "" {
		failed = "; a retry failed: " + failed
	}
	i := r.newInterrupt(c, Approval{Allowed: []segno.DecisionKind{segno.Approve, segno.Reject, segno.Respond},
		Question: "The call began and its result was lost" + failed + ". It may have happened. " +
			"approve runs it again, reject tells the model that the result is unknown, respond replies in its place"})
	i.Reason = segno.ReasonUnknown
	return i
}

// decide drafts decisions. The run commits them together with the intents of the calls they
// approve, so if two runs decide the same question, one of them finds that the head moved. decide
// skips a decision that is already recorded, because the caller is retrying.
func (r *run) decide(decisions []segno.Decision) error {
	for _, d := range decisions {
		d.Actor = cmp.Or(d.Actor, r.in.Actor)
		i, err := r.pendingInterrupt(d)
		if err != nil {
			return err
		}
		if i == nil {
			continue
		}
		if r.parent == nil || d.Time.IsZero() {
			d.Time = r.Now()
		}
		if err := i.Check(d, d.Time); err != nil {
			return err
		}
		if err := cmp.Or(r.checkEdit(i, &d), checkReply(i, &d)); err != nil {
			return err
		}
		r.draftDecision(d)
	}
	return nil
}

// draftDecision drafts a decision about an open question.
func (r *run) draftDecision(d segno.Decision) {
	r.draftRecord(d)
	if r.deciding == nil {
		r.deciding = map[string]bool{}
	}
	r.deciding[d.Interrupt] = true
}

// checkEdit returns an error for edited arguments that the tool does not accept. The question
// stays open.
func (r *run) checkEdit(i *segno.Interrupt, d *segno.Decision) error {
	if d.Kind != segno.Edit || r.parent != nil {
		return nil // the run at the top checks the arguments for subagents
	}
	asker := r
	if i.Via != "" {
		a := r.taskAgent(i.Via)
		if a == nil {
			return nil // the task's agent no longer exists
		}
		asker = &run{Agent: a}
	}
	invalid := asker.invalid(Call{ID: i.Call, Name: i.Tool, Args: d.Args})
	if invalid == "" {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, "decide", i.ID, "%s", invalid).WithHint("edit the arguments again; nothing was decided")
}

// taskAgent returns the agent that works on an open task, nil if its subagent is unknown.
func (r *run) taskAgent(call string) *Agent {
	var args taskArgs
	if json.Unmarshal(r.originalArgs(call), &args) != nil {
		return nil
	}
	i := slices.IndexFunc(r.Subagents, func(s Subagent) bool { return s.Name == args.Agent })
	if i < 0 {
		return nil
	}
	return r.subagent(r.Subagents[i])
}

// pendingInterrupt returns the open question of a decision, or nil if the same decision is
// already recorded.
func (r *run) pendingInterrupt(d segno.Decision) (*segno.Interrupt, error) {
	for n := range r.state.Interrupts {
		if r.state.Interrupts[n].ID == d.Interrupt {
			return &r.state.Interrupts[n], nil
		}
	}
	if a, ok := r.state.Answers[d.Interrupt]; ok {
		if isSameDecision(a.Decision, d) {
			return nil, nil
		}
		return nil, segno.Errorf(segno.KindConflict, "decide", d.Interrupt, "%w: %s, at %s", segno.ErrAnswered, a.Decision.Kind, a.Decision.Time.Format(time.RFC3339))
	}
	if now, ok := r.state.Replaced[d.Interrupt]; ok {
		return nil, segno.Errorf(segno.KindConflict, "decide", d.Interrupt, "replaced by question %s", now).
			WithHint("answer the new question: the thread was moved, or the old one had expired")
	}
	if r.record(segno.EntryInterrupt, d.Interrupt) != nil {
		return nil, segno.NewError(segno.KindConflict, "decide", d.Interrupt, ErrTurnOver).
			WithHint("run the thread without decisions: the question is closed")
	}
	return nil, segno.Errorf(segno.KindNotFound, "decide", d.Interrupt, "the thread has no such question").
		WithHint("run the thread without decisions to see its questions")
}

// isSameDecision reports whether a decision equals a recorded one. It ignores the time, which
// is set when a decision is recorded.
func isSameDecision(recorded, d segno.Decision) bool {
	if stored, err := segno.AsStored(d); err == nil {
		d = stored
	}
	return recorded.Kind == d.Kind && recorded.Text == d.Text && recorded.Actor == d.Actor && segno.HashArgs(recorded.Args) == segno.HashArgs(d.Args)
}

// unusedAnswer returns the last decision about a call that no run has acted on, or nil. There are
// several if the question was asked again after the first decision. The order of the log counts and
// not that of the times: clocks of machines differ, and an earlier approval must not overrule a later
// rejection.
func (r *run) unusedAnswer(call string) *segno.Answer {
	var last *segno.Answer
	for _, a := range r.state.Answers {
		if a.Interrupt.Thread == r.thread && a.Interrupt.Call == call && a.Interrupt.Wait == 0 && !a.Used && (last == nil || r.decidedAt(&a) > r.decidedAt(last)) {
			last = &a
		}
	}
	return last
}

// decidedAt returns the number of the commit that recorded a decision. A decision that is only
// drafted comes after all recorded ones.
func (r *run) decidedAt(a *segno.Answer) int64 {
	if n := r.record(segno.EntryDecision, a.Interrupt.ID); n != nil {
		return n.Seq
	}
	return math.MaxInt64
}

// isWaiting reports whether a question about a call, or about a part of its task, is open.
func (r *run) isWaiting(call string) bool {
	return slices.ContainsFunc(r.state.Interrupts, func(i segno.Interrupt) bool {
		return i.Via == call || i.Via == "" && i.Thread == r.thread && i.Call == call
	})
}

// isTaskResumable reports whether a task that waits can continue: one of its questions was
// answered or has expired.
func (r *run) isTaskResumable(call string) bool {
	for _, a := range r.state.Answers {
		if a.Interrupt.Via == call && !a.Used {
			return true
		}
	}
	return slices.ContainsFunc(r.state.Interrupts, func(i segno.Interrupt) bool { return i.Via == call && i.Late(r.Now()) })
}

// Decide records decisions and runs nothing: [Agent.Stream] without a prompt then acts on
// them. It works at any time and from any process, also during a run of the thread; that run
// continues with the decisions. Decide records all decisions or none. Repeating a recorded
// decision is not an error, so a caller may retry. Errors are [segno.KindConflict] with
// [segno.ErrAnswered] if another decision was first and with [ErrTurnOver] if the question is
// closed, [segno.KindNotFound] if the thread has no such question, and [segno.KindRefused] if
// the question expired.
func (a *Agent) Decide(ctx context.Context, thread string, decisions ...segno.Decision) error {
	return retryConflicts(ctx, func() error { return a.decideOnce(ctx, thread, decisions) })
}

// retryConflicts repeats a change of a thread until no other writer moves the head first.
func retryConflicts(ctx context.Context, change func() error) error {
	for {
		err := change()
		if raced := isHeadConflict(err) || segno.KindOf(err) == segno.KindFenced; !raced || ctx.Err() != nil {
			return err
		}
	}
}

// decideOnce records decisions on the thread's present head. Its error wraps a
// [segno.ConflictError] if another writer moved the head first.
func (a *Agent) decideOnce(ctx context.Context, thread string, decisions []segno.Decision) error {
	r := a.newRun(Input{Thread: thread})
	if err := r.completeMove(ctx); err != nil {
		return err
	}
	if err := r.reload(ctx); err != nil {
		return err
	}
	for _, d := range decisions {
		moved, err := r.isMoved(ctx, segno.EntryInterrupt, d.Interrupt)
		if err != nil {
			return err
		}
		if i, err := r.pendingInterrupt(d); err == nil && i != nil && moved {
			return segno.Errorf(segno.KindConflict, "decide", d.Interrupt, "the thread was moved after the question was asked").
				WithHint("run the thread without a prompt and answer the question that it asks then")
		}
	}
	if err := cmp.Or(r.decide(decisions), r.draftErr); err != nil || len(r.entries) == 0 {
		return err
	}
	_, err := r.commitWithRetry(ctx, r.newCommit(nil))
	return err
}
