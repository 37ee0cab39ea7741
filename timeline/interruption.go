package timeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// endObserver is the ability of a [segno.Transcript] to show the end of a turn whose agent still runs, because an agent with hooks
// reports no event when the user interrupts a turn, or, for Codex, when the model fails. An empty key means the newest prompt that
// waited in the agent's queue.
type endObserver interface {
	// Interrupted reports whether the turn of a prompt is over.
	Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error)
	// LastOf returns the time of the newest record of a turn, and whether the turn was
	// interrupted then. If wait is set, LastOf gives the agent a moment to write this record.
	LastOf(ctx context.Context, src segno.Source, key segno.TurnKey, wait bool) (at time.Time, over bool, err error)
}

// refusalObserver is the ability of a [segno.Transcript] to show that a hook of the user refused a prompt. Claude Code then calls no hook at
// the end of the turn.
type refusalObserver interface {
	// IsRefused reports whether the session has no record of a turn's prompt, and shows that a hook refused a prompt since a time.
	IsRefused(ctx context.Context, src segno.Source, key segno.TurnKey, since time.Time) (bool, error)
}

// sessionObserver is the ability of a [segno.Transcript] to observe and prepare the sessions of an agent that still runs. The empty
// key is that of [endObserver].
type sessionObserver interface {
	// Live returns the process that has a session open; ok is false if there is none.
	Live(ctx context.Context, session segno.SessionID) (pid int, ok bool)
	// Prefer makes a session the one that the agent continues by default.
	Prefer(ctx context.Context, src segno.Source) error
	// QueuedKey returns the key of the newest prompt that waited in the agent's queue and began a turn, or "".
	QueuedKey(ctx context.Context, src segno.Source) (segno.TurnKey, error)
	// AtQuestion reports whether the user interrupted a turn when the agent asked for permission
	// to use a tool.
	AtQuestion(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error)
}

// observer returns the observer of an agent's sessions. ok is false for an agent without one.
func (tx *txn) observer(agent string) (o sessionObserver, ok bool) {
	o, ok = tx.Transcripts[agent].(sessionObserver)
	return o, ok
}

// callObserver is the ability of a [segno.Transcript] to show that a turn made no calls.
type callObserver interface {
	// MadeNoCalls reports whether a turn certainly made no call, except those that [callReader] shows, and ran beside no command of an
	// earlier turn that is not in known. lastMessage is the last message of the agent, or "".
	MadeNoCalls(ctx context.Context, src segno.Source, key segno.TurnKey, lastMessage string, known map[string]bool) (bool, error)
	// MadeNoCallsSince reports whether the turns that began since a time certainly made no call at all, and ran beside no command of an
	// earlier turn.
	MadeNoCallsSince(ctx context.Context, src segno.Source, since time.Time) (bool, error)
}

// knowsCalls reports whether a turn without an entry of a call made no call: its agent reports each call, or its session shows it.
func (tx *txn) knowsCalls(ctx context.Context, t *OpenTurn, entries []segno.Entry, lastMessage string) bool {
	o, ok := tx.Transcripts[t.Agent].(callObserver)
	if agents.ReportsCalls(t.Agent) || !ok || slices.ContainsFunc(entries, ownership.IsReported) {
		return agents.ReportsCalls(t.Agent)
	}
	if t.Owner != "" { // the proxy does not know the agent's id of the turn
		if slices.ContainsFunc(entries, t.isInAnotherSession) {
			return false
		}
		none, err := o.MadeNoCallsSince(ctx, t.Source, t.Start)
		return err == nil && none
	}
	tasks := map[string]bool{} // what they change is attributed to the turns that started them
	for _, x := range tx.turns {
		for _, task := range x.Tasks {
			tasks[task.ID] = x.Source.Session == t.Source.Session && x.Workspace == t.Workspace
		}
	}
	none, err := o.MadeNoCalls(ctx, t.Source, cmp.Or(t.EventKey, t.Key), lastMessage, tasks)
	return err == nil && none
}

// isInAnotherSession reports whether an entry shows that a part of the turn is in another session: its agent ended, or lost the session.
func (t *OpenTurn) isInAnotherSession(e segno.Entry) bool {
	return e.Session != "" && e.Session != t.Source.Session || e.Kind == segno.EntryNote && e.Name == NoteAgentEnded
}

// isOver reports whether the transcript shows the end of an open turn while its agent still runs.
// It gives the agent a moment to write that record.
func (tx *txn) isOver(ctx context.Context, t OpenTurn) bool {
	o, ok := tx.Transcripts[t.Agent].(endObserver)
	if !ok {
		return false
	}
	over, err := o.Interrupted(ctx, t.Source, t.newestKey())
	return err == nil && (over || tx.isRefused(ctx, t))
}

// isRefused reports whether a hook of the user refused the prompt of a turn that hooks record.
func (tx *txn) isRefused(ctx context.Context, t OpenTurn) bool {
	o, ok := tx.Transcripts[t.Agent].(refusalObserver)
	if !ok || t.Owner != "" || t.newestKey() != t.Key { // the turn began with another prompt
		return false
	}
	refused, err := o.IsRefused(ctx, t.Source, t.Key, t.Start)
	return err == nil && refused
}

// wasInterrupted reports whether the transcript now shows the interruption of a turn that hooks
// record.
func (tx *txn) wasInterrupted(ctx context.Context, t OpenTurn) bool {
	o, ok := tx.Transcripts[t.Agent].(endObserver)
	if !ok || t.Owner != "" {
		return false
	}
	_, over, err := o.LastOf(ctx, t.Source, t.newestKey(), false)
	return err == nil && over
}

// endedAtQuestion reports whether the user interrupted a turn that hooks record when the agent
// asked for permission to use a tool.
func (tx *txn) endedAtQuestion(ctx context.Context, t OpenTurn) bool {
	o, ok := tx.observer(t.Agent)
	if !ok || t.Owner != "" {
		return false
	}
	at, err := o.AtQuestion(ctx, t.Source, t.newestKey())
	return err == nil && at
}

// evidenceOfLate returns the evidence about a turn that ended some time ago without an event,
// because the user interrupted it or its agent was killed. whyAll is why its calls or their times are not known, or "".
func (tx *txn) evidenceOfLate(ctx context.Context, t OpenTurn, ended time.Time) (e *ownership.Evidence, whyAll string, err error) {
	entries, bad, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, "", err
	}
	entries = tx.withUnreported(ctx, &t, entries)
	end := ownership.LateEnd{Latest: ended}
	if o, ok := tx.Transcripts[t.Agent].(endObserver); ok {
		if last, marked, err := o.LastOf(ctx, t.Source, t.newestKey(), ended.IsZero() && !tx.isGone(t)); err == nil {
			end.Last, end.Marked = last, marked
		}
	}
	e = end.Evidence(entries, t.Start, tx.knowsCalls(ctx, &t, entries, ""))
	switch {
	case t.hasLostCalls(entries, bad):
		e.Whole, whyAll = true, ownership.WhyLost
	case e.Whole:
		whyAll = ownership.WhyNoCalls
	}
	var until time.Time // the end of calls without a result
	if e.Exact {
		until = e.End
	}
	e.Start, e.Root = t.earliest(), tx.Workspace.Root()
	e.Calls = ownership.Calls(entries, tx.openContext(&t, entries, until, t.allTaskEnds(entries, time.Time{})))
	e.Calls = append(e.Calls, tx.expansions(ctx, &t, entries, true)...)
	return e, whyAll, nil
}
