package agent

import (
	"context"
	"encoding/json"
	"fmt"
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

// Ask is an approver for every call of these tools.
func Ask(tools ...string) Approver {
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

// unknown is the question about a call whose result was lost.
func (r *run) unknown(c Call) segno.Interrupt {
	i := r.interrupt(c, Approval{Allowed: []segno.DecisionKind{segno.Approve, segno.Reject, segno.Respond},
		Question: "the call was begun and its result was lost; it may have happened. approve makes it again, reject tells the model that it is unknown, respond tells it what happened"})
	i.Reason = segno.ReasonUnknown
	return i
}

// decide drafts decisions. They are committed together with the intents of what
// they allow: whoever comes second finds another head.
func (r *run) decide(decisions []segno.Decision) error {
	for _, d := range decisions {
		i, err := r.pending(d.Interrupt)
		if err != nil {
			return err
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
		if d.Actor == "" {
			d.Actor = r.in.Actor
		}
		e, err := d.Entry()
		if err != nil {
			return err
		}
		if err := r.draft(e); err != nil {
			return err
		}
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
	return &segno.Error{Op: "decide", Name: i.ID, Kind: segno.KindInvalid, Err: errText(wrong), Hint: "nothing was decided: edit the arguments again"}
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

// pending returns the interrupt a decision is about.
func (r *run) pending(id string) (*segno.Interrupt, error) {
	for n := range r.state.Interrupts {
		if r.state.Interrupts[n].ID == id {
			return &r.state.Interrupts[n], nil
		}
	}
	if a, ok := r.state.Answers[id]; ok {
		return nil, &segno.Error{Op: "decide", Name: id, Kind: segno.KindConflict,
			Err: fmt.Errorf("it was answered before: %s, at %s", a.Decision.Kind, a.Decision.Time.Format(time.RFC3339))}
	}
	if now, ok := r.state.Replaced[id]; ok {
		return nil, &segno.Error{Op: "decide", Name: id, Kind: segno.KindConflict, Err: errText("it is asked anew, as " + now),
			Hint: "the thread was moved, or the question had expired: answer the new one"}
	}
	return nil, &segno.Error{Op: "decide", Name: id, Kind: segno.KindNotFound, Err: errText("this thread asks no such thing"),
		Hint: "run the thread without decisions to hear what it asks"}
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

// errText is an error that is only its text.
type errText string

func (e errText) Error() string { return string(e) }
