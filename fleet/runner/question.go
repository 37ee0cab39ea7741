package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// answer is a question and the user's decision, which is nil until there is one.
type answer struct {
	Question segno.Interrupt `json:"question"`
	Decision *segno.Decision `json:"decision"`
}

// findAnswer finds a question of the runner and its decision at the end of a thread's line.
func findAnswer(ctx context.Context, store segno.Store, head segno.CommitID, id string) (*answer, error) {
	a := &answer{}
	for n, err := range segno.Ancestors(ctx, store, head, segno.Window{Last: 8, Entries: true}) {
		if err != nil {
			return nil, err
		}
		for _, e := range n.Entries {
			if e.ID != id {
				continue
			}
			var err error
			switch e.Kind {
			case segno.EntryDecision: // the oldest one counts, which is found last
				a.Decision = new(segno.Decision)
				err = json.Unmarshal(e.Body, a.Decision)
			case segno.EntryInterrupt:
				if err = json.Unmarshal(e.Body, &a.Question); err == nil {
					return a, nil
				}
			}
			if err != nil {
				return nil, segno.NewError(segno.KindCorrupt, "read question", id, err)
			}
		}
	}
	return nil, segno.Errorf(segno.KindConflict, "find question", id, "the thread was moved after the agent asked").
		WithHint("cancel the prompt, and send it again")
}

// questionSince returns the id of the question that wait recorded after the newest turn of a thread's line, or "" if there is
// none that is newer than a commit. The questions in a turn are those that the proxy recorded.
func questionSince(ctx context.Context, store segno.Store, head segno.CommitID, since int64) (string, error) {
	for n, err := range segno.Ancestors(ctx, store, head, segno.Window{Last: 8, Entries: true}) {
		if err != nil {
			return "", err
		}
		if n.Seq <= since || n.Checkpoint != nil {
			break
		}
		for _, e := range n.Entries {
			if e.Kind == segno.EntryInterrupt {
				return e.ID, nil
			}
		}
	}
	return "", nil
}

// prompt is the text with which the agent continues after the decision. made is the call that an earlier attempt made because
// of the decision, if it did.
func (a *answer) prompt(made *call) string {
	what, isLost := "the call for which you asked for permission: "+a.Question.Tool, a.Question.Reason == segno.ReasonUnknown
	if isLost {
		what = "a call whose result was lost, because its machine failed: " + a.Question.Tool
	}
	switch {
	case made != nil:
		return fmt.Sprintf("The user allowed %s. This call was made, and it ended. Do not make it again. Continue.", what)
	case a.Decision.Kind == segno.Approve && isLost:
		return fmt.Sprintf("The user was asked about %s. The user wants it to be made again, whether it had its effect or not. Make this call again and continue.", what)
	case a.Decision.Kind == segno.Approve:
		return fmt.Sprintf("The user allowed %s. Make this call again and continue.", what)
	case a.Decision.Kind == segno.Respond:
		return fmt.Sprintf("The user was asked about %s. This is the result, as the user reports it: %s\nDo not make the call again. Continue.", what, a.Decision.Text)
	}
	why := ""
	if a.Decision.Text != "" {
		why = " The user wrote: " + a.Decision.Text
	}
	if isLost {
		return fmt.Sprintf("The user was asked about %s. It may have happened or not, and the user does not want it to be made again.%s Continue without it.", what, why)
	}
	return fmt.Sprintf("The user refused %s.%s Continue without it.", what, why)
}

// permissionRequest is a request of the agent for permission to make a call.
type permissionRequest struct {
	Call struct {
		ID string `json:"toolCallId"`
		description
	} `json:"toolCall"`
	Options []struct {
		ID   string `json:"optionId"`
		Kind string `json:"kind"`
	} `json:"options"`
}

// description is what an agent says about a call when it announces the call, and when it asks for permission.
type description struct {
	Title   string          `json:"title"`
	Kind    string          `json:"kind"`
	Input   json.RawMessage `json:"rawInput"`
	Content json.RawMessage `json:"content"`
}

// or returns d with what d does not say and other does. A request for permission needs only the id of a call that was announced.
func (d description) or(other description) description {
	d.Title, d.Kind = cmp.Or(d.Title, other.Title), cmp.Or(d.Kind, other.Kind)
	if len(d.Input) == 0 {
		d.Input = other.Input
	}
	if len(d.Content) == 0 {
		d.Content = other.Content
	}
	return d
}

// args returns the input of the call or, if the agent gives none, its content. It is null without both.
func (d description) args() json.RawMessage {
	for _, args := range []json.RawMessage{d.Input, d.Content} {
		if len(args) > 0 && string(args) != "null" {
			return args
		}
	}
	return json.RawMessage("null")
}

// permit answers a request for permission by the policy, or by the decision of the user. If there is none yet, it keeps the
// question and answers that the request is cancelled. It records a call that it allows, so that no attempt allows the call
// again before the user decided whether a call with an unknown outcome is made again.
func (r *acpRun) permit(ctx context.Context, m acp.Message) (outcome map[string]any, isQuestion bool, err error) {
	var p permissionRequest
	_ = m.Decode(m.Params, &p) // a malformed request has no options, and is cancelled
	d := p.Call.description
	if c := r.attempts.known[p.Call.ID]; c != nil {
		d = d.or(c.announced)
	}
	q := segno.Interrupt{ID: segno.NewID(), Thread: r.thread, Call: p.Call.ID, Tool: r.neutral(d.Title), Args: json.RawMessage(r.neutral(string(d.args()))),
		Reason: segno.ReasonApproval, Allowed: []segno.DecisionKind{segno.Approve, segno.Reject}, Asked: time.Now().UTC()}
	q.ArgsHash, q.Question = segno.HashArgs(q.Args), "The agent asks for permission: "+q.Tool
	policy, call := r.decide(q, d.isLocal())
	if policy == Ask {
		if r.question == nil {
			if r.question = &q; call.Repeats {
				r.question = r.lostQuestion(q)
			}
		}
		return map[string]any{"outcome": "cancelled"}, true, nil
	}
	id, isOffered := p.option(policy)
	if !isOffered {
		return map[string]any{"outcome": "cancelled"}, false, nil
	}
	if policy == Allow {
		err = r.attempts.allow(ctx, p.Call.ID, q.Tool, call)
	}
	return map[string]any{"outcome": "selected", "optionId": id}, false, err
}

// decide returns whether a call is allowed or refused, or whether the user must be asked q. It uses the decision of the user if it is
// about this call.
func (r *acpRun) decide(q segno.Interrupt, isLocal bool) (Permissions, allowedCall) {
	policy := cmp.Or(r.Permissions, Ask)
	call := allowedCall{Args: q.ArgsHash, Repeats: r.attempts.mayHaveRun(q.Tool, q.ArgsHash)}
	if a := r.answer; policy != Refuse && a != nil && a.Question.Tool == q.Tool && a.Question.ArgsHash == q.ArgsHash {
		r.answer = nil // the decision is valid for one call
		if a.Decision.Kind != segno.Approve {
			return Refuse, call
		}
		call.Question = a.Question.ID
		return Allow, call
	}
	if policy == Allow && call.Repeats && !isLocal {
		policy = Ask
	}
	if policy == Ask && q.Tool == "" && string(q.Args) == "null" {
		policy = Refuse // nobody can know what the permission would allow
	}
	return policy, call
}

// option returns the id of the option with which a request is allowed or refused, if the agent offers one.
func (p *permissionRequest) option(policy Permissions) (id string, isOffered bool) {
	kinds := []string{"reject_once", "reject_always"}
	if policy == Allow {
		kinds = []string{"allow_once", "allow_always"}
	}
	for _, kind := range kinds {
		for _, o := range p.Options {
			if o.Kind == kind {
				return o.ID, true
			}
		}
	}
	return "", false
}

// isLocal reports whether a call acts only on the files of the thread, according to the agent. The files of an attempt that
// failed are gone, or the agent sees them, so such a call may be repeated.
func (d description) isLocal() bool {
	return slices.Contains([]string{"read", "edit", "delete", "move", "search", "think"}, d.Kind)
}

// lostQuestion returns the question whether a call is made again whose outcome is not known. asked is a question about the
// same call.
func (r *acpRun) lostQuestion(asked segno.Interrupt) *segno.Interrupt {
	asked.ID, asked.Asked, asked.Reason = segno.NewID(), time.Now().UTC(), segno.ReasonUnknown
	asked.Question = "The call began and its result was lost: " + asked.Tool + ". It may have happened. approve makes it again, " +
		"reject tells the agent that the result is not known, respond replies in its place"
	asked.Allowed = []segno.DecisionKind{segno.Approve, segno.Reject, segno.Respond}
	return &asked
}

// wait records the question of this attempt on the thread. If the process ends between the two commits, the next
// attempt finds the question with questionSince.
func (r *acpRun) wait(ctx context.Context, a attempt) (fleet.Result, error) {
	e, err := r.question.Entry()
	if err != nil {
		return fleet.Result{}, err
	}
	_, err = r.Store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Parent: r.head.Head, Expect: r.head.Head,
		Epoch: r.lease.Epoch, Entries: []segno.Entry{e}, Durability: segno.Synced})
	if err != nil {
		return fleet.Result{}, fmt.Errorf("record question: %w", err)
	}
	a.Waits = r.question.ID
	if err := r.attempts.begin(ctx, a); err != nil {
		return fleet.Result{}, err
	}
	return fleet.Result{Phase: agent.PhaseWaiting, Text: r.question.Question}, nil
}
