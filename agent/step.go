package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// stepLimit is the error of a run that took all the steps it may.
type stepLimit int

func (n stepLimit) Error() string { return fmt.Sprintf("the run took %d steps", int(n)) }

// step asks the model once, and reports whether the turn is over. What it said is
// durable on return, unless it called tools: [run.settle] goes on with those.
func (r *run) step(ctx context.Context) (done bool, err error) {
	if r.steps++; r.steps > r.MaxSteps {
		return false, segno.NewError(segno.KindRefused, "run agent", string(r.thread), stepLimit(r.MaxSteps)).WithHint("run the thread again without a prompt to go on, or raise MaxSteps")
	}
	if err := r.summarize(ctx); err != nil {
		return false, err
	}
	r.tell(Event{Kind: EventStepStart})
	if r.parent != nil {
		r.parent.tell(Event{Kind: EventSubStep, Path: r.sub, Count: r.steps})
	}
	reply, err := r.generate(ctx, r.request())
	if err != nil {
		return false, err
	}
	said := r.own(reply)
	calls := r.rename(said)
	if err := r.say(*said); err != nil {
		return false, err
	}
	if err := r.used(r.Model, reply.Usage); err != nil {
		return false, err
	}
	r.state.Step++
	if len(calls) > 0 {
		return false, nil
	}
	if r.in.Output != nil {
		return false, r.nudge(ctx)
	}
	return true, r.finish(ctx)
}

// own makes a reply the model's message, whatever else it claims to be: only tools
// have results.
func (r *run) own(reply *Reply) *Message {
	m := reply.Message // the model may have its own still
	m.ID, m.Role, m.Model, m.Stop = "", Assistant, cmp.Or(m.Model, r.Model.Name()), ""
	if reply.Stop == StopLength || reply.Stop == StopRefusal {
		m.Stop = reply.Stop
	}
	m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.Result != nil })
	return &m
}

// finish ends the turn.
func (r *run) finish(ctx context.Context) error {
	r.open = false
	if err := r.noteAnswer(); err != nil {
		return err
	}
	return r.commit(ctx, &segno.Checkpoint{Kind: segno.CheckpointTurn, Step: r.state.Step, Prompt: r.prompt})
}

// rename gives each call an id that no other call of the line has: some models
// count from nought in every message.
func (r *run) rename(m *Message) (calls []Call) {
	used := map[string]bool{}
	for i := range m.Parts {
		c := m.Parts[i].Call
		if c == nil {
			continue
		}
		own := *c
		if used[c.ID] || r.ids[c.ID] {
			own.ID = "call_" + segno.NewID()
		}
		own.Args = compact(c.Args)
		m.Parts[i].Call = &own
		used[own.ID] = true
		calls = append(calls, own)
	}
	return calls
}

// compact writes arguments as the log will, so that the model is shown the same
// bytes now and after a restart. What is no JSON becomes a string: the call is
// refused, and recorded all the same.
func compact(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	if out, err := segno.Encode(args); err == nil {
		return out
	}
	out, err := segno.Encode(string(args))
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

// used drafts what a model call cost.
func (r *run) used(m Model, u Usage) error {
	body, err := segno.Encode(u)
	if err != nil {
		return fmt.Errorf("record usage: %w", err)
	}
	return r.draft(segno.Entry{Kind: segno.EntryUsage, Name: m.Name(), Body: body})
}

// request is what the model is asked now.
func (r *run) request() Request {
	q := Request{System: r.System, Messages: slices.Clone(r.shown), Tools: r.specs, MaxTokens: r.MaxTokens, Thread: string(r.thread)}
	if r.in.Output != nil {
		q.Tools = append(slices.Clip(q.Tools), answerTool(r.in.Output))
	}
	return q
}
