package moves

import (
	"context"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
)

// decision answers a question of a Go agent whose run waits for the answer.
type decision struct {
	*target
	request Request
	answer  segno.Decision
	tool    string // of the question
}

func (m *decision) describe(ctx context.Context, p *Preview) error {
	r := &m.request
	if _, ok := timeline.PermissionCall(r.Interrupt); ok {
		return segno.Errorf(segno.KindRefused, verbDecide, r.Interrupt, "the agent asked its own client").
			WithHint("answer in the program that runs the agent")
	}
	line, err := m.Store.Load(ctx, m.head.Head, segno.Window{Entries: true})
	if err != nil {
		return err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(state.Interrupts, func(i segno.Interrupt) bool { return i.ID == r.Interrupt })
	if i < 0 {
		return m.notOpen(state)
	}
	question := &state.Interrupts[i]
	m.tool = question.Tool
	m.answer = segno.Decision{Interrupt: r.Interrupt, Kind: r.Decision, Text: r.Message, Args: r.Input}
	if err := question.Check(m.answer, m.Now()); err != nil {
		return err
	}
	p.Landing, p.Tip, p.Final = m.head.Head, m.head.Tip, true
	args := question.Args
	if r.Decision == segno.Edit {
		args = r.Input
	}
	const longest = 120
	call := turns.Call{Tool: question.Tool, Input: args}
	p.Summary = []string{printable.Inline(fmt.Sprintf("%s: %s %s", r.Decision, question.Tool, call.Subject(longest)))}
	if r.Message != "" {
		p.Summary = append(p.Summary, "  "+printable.Inline(r.Message))
	}
	p.Run = m.command()
	return nil
}

// notOpen returns the error for a question that is not open.
func (m *decision) notOpen(state *segno.State) error {
	id := m.request.Interrupt
	if a, ok := state.Answers[id]; ok {
		return segno.Errorf(segno.KindConflict, verbDecide, id, "%w: %s", segno.ErrAnswered, a.Decision.Kind)
	}
	return segno.Errorf(segno.KindNotFound, verbDecide, id, "the thread has no such open question").
		WithHint("look at the open questions of the thread again")
}

// command returns the command that runs the thread after a decision. The command is empty for an
// agent that is not segno's own.
func (m *decision) command() []string {
	return append([]string{}, m.OwnAgent.Command(m.thread, "--continue")...)
}

func (m *decision) apply(ctx context.Context, _ segno.OperationID, _ bool, o *Outcome) error {
	m.answer.Actor = m.actor
	if err := m.OwnAgent.Decide(ctx, m.thread, m.timeline, m.root, m.answer); err != nil {
		return err
	}
	o.Run, o.Dir = m.command(), m.root
	done := map[segno.DecisionKind]string{segno.Approve: "Approved", segno.Edit: "Approved with your changes", segno.Reject: "Rejected", segno.Respond: "Answered"}
	o.Sentence = done[m.answer.Kind] + " " + printable.Inline(m.tool) + "."
	o.Notice = "a run of the thread acts on the decision"
	if len(o.Run) > 0 {
		o.Notice = "the agent acts on it when it continues; unless a chat is open, run this"
	}
	return nil
}
