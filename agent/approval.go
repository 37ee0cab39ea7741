package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Approver says whether a call needs leave. nil lets it pass.
type Approver func(ctx context.Context, c Call) *Approval

// Approval says how leave for a call is asked.
type Approval struct {
	Question string
	Allowed  []segno.DecisionKind // none is all of them
	Within   time.Duration        // an answer counts only so long; 0 is for ever
}

// RequireApproval is an approver for every call of these tools.
func RequireApproval(tools ...string) Approver {
	return func(_ context.Context, c Call) *Approval {
		if slices.Contains(tools, c.Name) {
			return &Approval{}
		}
		return nil
	}
}

var allDecisions = []segno.DecisionKind{segno.Approve, segno.Edit, segno.Reject, segno.Respond}

// interrupt is the question about a call.
func (r *run) interrupt(c Call, a Approval) segno.Interrupt {
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

// unknown is the question about a call whose result was lost. failed says why a retry failed,
// if there was one.
func (r *run) unknown(c Call, failed string) segno.Interrupt {
	if failed != "" {
		failed = "; it was tried again and failed: " + failed
	}
	i := r.interrupt(c, Approval{Allowed: []segno.DecisionKind{segno.Approve, segno.Reject, segno.Respond},
		Question: "the call was begun and its result was lost" + failed + "; it may have happened. approve makes it again, reject tells the model that it is unknown, respond tells it what happened"})
	i.Reason = segno.ReasonUnknown
	return i
}

// decide drafts decisions. They are committed together with the intents of what they
// allow, so of two runs that answer a question one finds another head. A decision that is
// recorded already is skipped: the caller retries.
func (r *run) decide(decisions []segno.Decision) error {
	for _, d := range decisions {
		d = by(d, r.in.Actor)
		i, err := r.pending(d)
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
		if err := r.fits(i, &d); err != nil {
			return err
		}
		e, err := d.Entry()
		if err != nil {
			return err
		}
		if err := r.draft(e); err != nil {
			return err
		}
		if r.deciding == nil {
			r.deciding = map[string]bool{}
		}
		r.deciding[d.Interrupt] = true
	}
	return nil
}

// fits refuses arguments that the tool would not take: the question stays open for
// better ones.
func (r *run) fits(i *segno.Interrupt, d *segno.Decision) error {
	if d.Kind != segno.Edit || r.parent != nil {
		return nil // a subagent's are looked at where they are given
	}
	asker := r
	if i.Via != "" {
		if asker = r.askerOf(i.Via); asker == nil {
			return nil // it will not be asked
		}
	}
	wrong := asker.wrong(Call{ID: i.Call, Name: i.Tool, Args: d.Args})
	if wrong == "" {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, "decide", i.ID, "%s", wrong).WithHint("nothing was decided: edit the arguments again")
}

// askerOf is a run of the subagent that has a task, for what it knows of its tools; nil
// if there is none of its name.
func (r *run) askerOf(task string) *run {
	var args taskArgs
	if json.Unmarshal(r.asCalled(task), &args) != nil {
		return nil
	}
	i := slices.IndexFunc(r.Subagents, func(s Subagent) bool { return s.Name == args.Agent })
	if i < 0 {
		return nil
	}
	return &run{Agent: r.subagent(r.Subagents[i])}
}

// pending returns the interrupt that a decision is about, or nil if this very decision is
// recorded already.
func (r *run) pending(d segno.Decision) (*segno.Interrupt, error) {
	for n := range r.state.Interrupts {
		if r.state.Interrupts[n].ID == d.Interrupt {
			return &r.state.Interrupts[n], nil
		}
	}
	if a, ok := r.state.Answers[d.Interrupt]; ok {
		if repeats(a.Decision, d) {
			return nil, nil
		}
		return nil, segno.Errorf(segno.KindConflict, "decide", d.Interrupt, "%w: %s, at %s", ErrAnswered, a.Decision.Kind, a.Decision.Time.Format(time.RFC3339))
	}
	if now, ok := r.state.Replaced[d.Interrupt]; ok {
		return nil, segno.Errorf(segno.KindConflict, "decide", d.Interrupt, "%s", "it is asked anew, as "+now).WithHint("the thread was moved, or the question had expired: answer the new one")
	}
	if r.asked[string(segno.EntryInterrupt)+d.Interrupt] != nil {
		return nil, segno.NewError(segno.KindConflict, "decide", d.Interrupt, ErrTurnOver).WithHint("the question waits no more: run the thread without decisions")
	}
	return nil, segno.Errorf(segno.KindNotFound, "decide", d.Interrupt, "this thread asks no such thing").WithHint("run the thread without decisions to hear what it asks")
}

// by is the decision with its actor filled in.
func by(d segno.Decision, actor string) segno.Decision {
	d.Actor = cmp.Or(d.Actor, actor)
	return d
}

// repeats reports whether a decision is the one that is recorded. The recorder sets the
// time.
func repeats(recorded, d segno.Decision) bool {
	return recorded.Kind == d.Kind && recorded.Text == d.Text && recorded.Actor == d.Actor && segno.HashArgs(recorded.Args) == segno.HashArgs(d.Args)
}

// answer returns what was decided about a call and not acted on yet, or nil.
func (r *run) answer(call string) *segno.Answer {
	var newest *segno.Answer
	for _, a := range r.state.Answers {
		if a.Interrupt.Thread == r.thread && a.Interrupt.Call == call && !a.Used && (newest == nil || a.Decision.Time.After(newest.Decision.Time)) {
			newest = &a
		}
	}
	return newest
}

// waits reports whether a call waits for a decision: about itself, or in a
// subagent.
func (r *run) waits(call string) bool {
	return slices.ContainsFunc(r.state.Interrupts, func(i segno.Interrupt) bool {
		return i.Via == call || i.Via == "" && i.Thread == r.thread && i.Call == call
	})
}
