package agent

import (
	"context"
	"iter"

	"github.com/dalsegno/segno"
)

// FindQuery chooses threads by what they are doing.
type FindQuery struct {
	Phase     Phase
	Workspace segno.WorkspaceID // that started there; "" is any
	After     string            // whose id is greater: the last thread of the page before
	Limit     int               // 0 is all
}

// Found is a thread that [Agent.Find] found.
type Found struct {
	Thread     segno.Thread
	Phase      Phase
	Interrupts []segno.Interrupt // what waits for a decision
}

// Find yields the threads in a phase, in the order of their ids; a subagent's thread counts
// as a part of its parent's and is not listed. The store has an index, so only the threads
// found are loaded, and those of no other phase. A run is found as running from its first
// commit on. What Find yields may have changed by then: a run that acts on it takes the lease
// and looks again.
func (a *Agent) Find(ctx context.Context, q FindQuery) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		n := 0
		for t, err := range a.candidates(ctx, q) {
			var f Found
			if err == nil {
				f, err = a.look(ctx, t)
			}
			if segno.KindOf(err) == segno.KindNotFound && err != nil {
				continue // deleted meanwhile
			}
			if err == nil && f.Phase != q.Phase {
				continue
			}
			if n++; !yield(f, err) || err != nil || n == q.Limit {
				return
			}
		}
	}
}

// Question is one that waits for a decision.
type Question struct {
	Thread    string // what [Agent.Decide] is called with
	Interrupt segno.Interrupt
}

// Inbox yields all open questions, those of one thread together and in the order they were
// asked. after is the last thread of the page before, or "".
func (a *Agent) Inbox(ctx context.Context, after string) iter.Seq2[Question, error] {
	return func(yield func(Question, error) bool) {
		for f, err := range a.Find(ctx, FindQuery{Phase: PhaseWaiting, After: after}) {
			if err != nil {
				yield(Question{}, err)
				return
			}
			for _, i := range f.Interrupts {
				if !yield(Question{Thread: string(f.Thread.ID), Interrupt: i}, nil) {
					return
				}
			}
		}
	}
}

// candidates yields at least the threads that q chooses, in the order of their ids.
func (a *Agent) candidates(ctx context.Context, q FindQuery) iter.Seq2[candidate, error] {
	inPhase := func(p segno.Phase) iter.Seq2[candidate, error] {
		return func(yield func(candidate, error) bool) {
			for t, err := range a.Store.Threads(ctx, segno.ThreadQuery{Phase: p, After: segno.ThreadID(q.After), Workspace: q.Workspace, TopLevel: true}) {
				if !yield(candidate{t, p}, err) {
					return
				}
			}
		}
	}
	switch q.Phase {
	case PhaseWaiting:
		return inPhase(segno.PhaseWaiting)
	case PhaseBrokenOff:
		return inPhase(segno.PhaseOpen)
	case PhaseDone:
		return merge(inPhase(segno.PhaseDone), inPhase(segno.PhaseOpen))
	case PhaseRunning:
		return merge(inPhase(segno.PhaseOpen), inPhase(segno.PhaseWaiting))
	}
	return func(yield func(candidate, error) bool) {
		yield(candidate{}, segno.Errorf(segno.KindInvalid, "find threads", string(q.Phase), "unknown phase").WithHint("use running, waiting, broken-off or done"))
	}
}

// candidate is a thread and the phase that the store's index has for it.
type candidate struct {
	segno.Thread
	phase segno.Phase
}

// merge yields two ordered sequences as one.
func merge(x, y iter.Seq2[candidate, error]) iter.Seq2[candidate, error] {
	return func(yield func(candidate, error) bool) {
		nextX, stopX := iter.Pull2(x)
		defer stopX()
		nextY, stopY := iter.Pull2(y)
		defer stopY()
		a, errA, okA := nextX()
		b, errB, okB := nextY()
		for okA || okB {
			if !okB || okA && (errA != nil || errB == nil && a.ID <= b.ID) {
				if !yield(a, errA) || errA != nil {
					return
				}
				a, errA, okA = nextX()
				continue
			}
			if !yield(b, errB) || errB != nil {
				return
			}
			b, errB, okB = nextY()
		}
	}
}

// look finds out what a candidate is doing. Threads of other agents and of savers have
// messages that this agent cannot read, so of those only the commits are looked at.
func (a *Agent) look(ctx context.Context, c candidate) (Found, error) {
	f := Found{Thread: c.Thread}
	if c.phase == segno.PhaseOpen && c.Agent == a.Name {
		s, err := a.Status(ctx, string(c.ID))
		f.Phase, f.Interrupts = s.Phase, s.Interrupts
		return f, err
	}
	running, err := a.Running(ctx, string(c.ID))
	if err != nil {
		return f, err
	}
	switch {
	case running:
		f.Phase = PhaseRunning
	case c.phase == segno.PhaseDone:
		f.Phase = PhaseDone
	case c.phase == segno.PhaseOpen:
		f.Phase = PhaseBrokenOff
	default:
		f.Phase = PhaseWaiting
	}
	if c.phase == segno.PhaseWaiting {
		f.Interrupts, err = a.questions(ctx, c.ID)
	}
	return f, err
}

// questions are those of a thread that wait for a decision.
func (a *Agent) questions(ctx context.Context, thread segno.ThreadID) ([]segno.Interrupt, error) {
	head, err := a.headOf(ctx, thread)
	if err != nil {
		return nil, err
	}
	line, err := a.Store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return nil, err
	}
	return state.Interrupts, nil
}
