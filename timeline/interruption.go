package timeline

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// sessionObserver is the ability of a [segno.Transcript] to observe the session of an agent that
// still runs, because an agent with hooks reports no event when the user interrupts a turn. An
// empty key means the newest prompt that waited in the agent's queue.
type sessionObserver interface {
	// Live returns the process that has a session open; ok is false if there is none.
	Live(ctx context.Context, session segno.SessionID) (pid int, ok bool)
	// Prefer makes a session the one that the agent continues by default.
	Prefer(ctx context.Context, src segno.Source) error
	// Interrupted reports whether the turn of a prompt is over.
	Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error)
	// LastOf returns the time of the newest record of a turn, and whether the turn was
	// interrupted then. If wait is set, LastOf gives the agent a moment to write this record.
	LastOf(ctx context.Context, src segno.Source, key segno.TurnKey, wait bool) (at time.Time, over bool, err error)
	// AtQuestion reports whether the user interrupted a turn when the agent asked for permission
	// to use a tool.
	AtQuestion(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error)
}

// observer returns the observer of an agent's sessions. ok is false for an agent without one.
func (tx *txn) observer(agent string) (o sessionObserver, ok bool) {
	o, ok = tx.Transcripts[agent].(sessionObserver)
	return o, ok
}

// isOver reports whether the transcript shows the end of an open turn while its agent still runs.
// It gives the agent a moment to write that record.
func (tx *txn) isOver(ctx context.Context, t OpenTurn) bool {
	o, ok := tx.observer(t.Agent)
	if !ok {
		return false
	}
	over, err := o.Interrupted(ctx, t.Source, t.newestKey())
	return err == nil && over
}

// wasInterrupted reports whether the transcript now shows the interruption of a turn that hooks
// record.
func (tx *txn) wasInterrupted(ctx context.Context, t OpenTurn) bool {
	o, ok := tx.observer(t.Agent)
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
// because the user interrupted it or its agent was killed.
//
// If the agent recorded the interruption, the turn and all its calls ended then. Otherwise the
// turn ended no earlier than its last entry, and a call without a result may have worked longer.
func (tx *txn) evidenceOfLate(ctx context.Context, t OpenTurn, ended time.Time) (*ownership.Evidence, error) {
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	c := &ownership.Evidence{Start: t.Start, End: t.Start, Whole: !agents.ReportsCalls(t.Agent), Root: tx.Workspace.Root()}
	for _, e := range entries {
		if e.Time.After(c.End) {
			c.End = e.Time
		}
		c.Whole = c.Whole && e.Kind != segno.EntryIntent
	}
	if o, ok := tx.observer(t.Agent); ok {
		last, marked, err := o.LastOf(ctx, t.Source, t.newestKey(), ended.IsZero() && !tx.isGone(t))
		if err == nil && !last.IsZero() {
			c.Whole = false // the transcript and the hooks name all calls
			c.Exact = marked
			if marked || last.After(c.End) {
				c.End = last
			}
		}
	}
	if !c.Exact && !ended.IsZero() {
		c.End, c.Exact = ended, true
	}
	var end time.Time // the end of calls without a result
	if c.Exact {
		end = c.End
	}
	c.Calls = tx.calls(entries, t.Source.Dir, end, t.allTaskEnds(entries, time.Time{}))
	return c, nil
}
