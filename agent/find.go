package agent

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// FindQuery selects threads by phase.
type FindQuery struct {
	Phase     Phase
	Workspace segno.WorkspaceID // of the threads; "" is any
	After     string            // threads with a greater id: the last thread of the previous page
	Limit     int               // 0 is unlimited
}

// Found is a result of [Agent.Find].
type Found struct {
	Thread     segno.Thread
	Phase      Phase
	Interrupts []segno.Interrupt // what the turn waits for: questions, and the waits of calls
	Wake       time.Time         // when the turn continues without an answer; zero if it does not. Other threads that it waits for do not count
}

// Find yields the threads in a phase, ordered by id. It does not list the threads of
// subagents. The store has an index, so Find loads only the threads it yields and a few more.
// A running thread is found from its first commit on. A thread may change after Find yielded
// it: a run that acts on it acquires the lease and reads it again.
func (a *Agent) Find(ctx context.Context, q FindQuery) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		n := 0
		for t, err := range a.candidates(ctx, q) {
			var f Found
			if err == nil {
				f, err = a.inspect(ctx, t)
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

// Question is a result of [Agent.Inbox].
type Question struct {
	Thread    string // for [Agent.Decide]
	Interrupt segno.Interrupt
}

// Inbox yields all open questions to persons, grouped by thread and in the order they were asked.
// after is the last thread of the previous page, or "".
func (a *Agent) Inbox(ctx context.Context, after string) iter.Seq2[Question, error] {
	return func(yield func(Question, error) bool) {
		for f, err := range a.Find(ctx, FindQuery{Phase: PhaseWaiting, After: after}) {
			if err != nil {
				yield(Question{}, err)
				return
			}
			for _, i := range questionsOf(f.Interrupts) {
				if !yield(Question{Thread: string(f.Thread.ID), Interrupt: i}, nil) {
					return
				}
			}
		}
	}
}

// candidate is a thread and its phase in the store's index.
type candidate struct {
	segno.Thread
	phase segno.Phase
}

// candidates yields the threads that q may select, ordered by id. A turn that is open in the
// index may have ended meanwhile or may be running.
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
		yield(candidate{}, segno.Errorf(segno.KindInvalid, "find threads", string(q.Phase), "unknown phase").
			WithHint("use running, waiting, broken-off or done"))
	}
}

// merge merges two sequences that are ordered by id. An error ends it.
func merge(x, y iter.Seq2[candidate, error]) iter.Seq2[candidate, error] {
	return func(yield func(candidate, error) bool) {
		nextY, stop := iter.Pull2(y)
		defer stop()
		b, errB, more := nextY()
		for a, errA := range x {
			for more && errA == nil && (errB != nil || b.ID < a.ID) {
				if !yield(b, errB) || errB != nil {
					return
				}
				b, errB, more = nextY()
			}
			if !yield(a, errA) || errA != nil {
				return
			}
		}
		for more && yield(b, errB) && errB == nil {
			b, errB, more = nextY()
		}
	}
}

// inspect returns the phase and the open questions of a candidate. Threads of savers and of other agents
// have messages in other formats, so inspect reads only the commits of those threads.
func (a *Agent) inspect(ctx context.Context, c candidate) (Found, error) {
	f := Found{Thread: c.Thread}
	if c.phase == segno.PhaseOpen && c.Agent == a.Name {
		s, err := a.Status(ctx, string(c.ID))
		f.Phase, f.Interrupts, f.Wake = s.Phase, s.Interrupts, s.Wake
		return f, err
	}
	running, err := a.newRun(Input{Thread: string(c.ID)}).isLeased(ctx)
	f.Phase = map[segno.Phase]Phase{segno.PhaseDone: PhaseDone, segno.PhaseOpen: PhaseBrokenOff, segno.PhaseWaiting: PhaseWaiting}[c.phase]
	if running {
		f.Phase = PhaseRunning
	}
	if err != nil || c.phase != segno.PhaseWaiting {
		return f, err
	}
	head, err := a.headOf(ctx, c.ID)
	if err != nil {
		return f, err
	}
	f.Interrupts, err = a.interruptsAt(ctx, head.Head)
	f.Wake = nextWake(f.Interrupts)
	return f, err
}

// interruptsAt returns what the turn of a thread waits for, without reading the whole thread: the waits of an agent belong to
// calls of the newest message of its model. For other threads, it reads the commits after the last turn that ended.
func (a *Agent) interruptsAt(ctx context.Context, head segno.CommitID) ([]segno.Interrupt, error) {
	isBefore := func(n *segno.Node) bool {
		return n.Checkpoint != nil && n.Checkpoint.Kind == segno.CheckpointTurn && !n.Checkpoint.Interrupted
	}
	isMessage := func(e segno.Entry) bool { return e.Kind == segno.EntryMessage && e.Name == string(Assistant) }
	const few = 4
	nodes, err := retry(ctx, a, busyTries, func() (nodes []segno.Node, err error) {
		for n, err := range segno.Ancestors(ctx, a.Store, head, segno.Window{Last: few, Entries: true}) {
			if err != nil {
				return nil, err
			}
			if isBefore(n) {
				break
			}
			if nodes = append(nodes, *n); slices.ContainsFunc(n.Entries, isMessage) {
				break
			}
		}
		return nodes, nil
	})
	if err != nil {
		return nil, err
	}
	state := &segno.State{Answers: map[string]segno.Answer{}}
	for _, n := range slices.Backward(nodes) {
		n.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e segno.Entry) bool {
			return e.Kind != segno.EntryInterrupt && e.Kind != segno.EntryDecision && e.Kind != segno.EntryResult
		})
		if err := state.Add(&n); err != nil {
			return nil, err
		}
	}
	return state.Interrupts, nil
}
