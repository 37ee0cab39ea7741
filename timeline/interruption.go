package timeline

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
)

// timestamped is the ability of a [Transcript] to say when the newest record of a turn was
// written, and whether the turn ended there. With wait it gives the agent a moment to
// write that it did.
type timestamped interface {
	LastOf(ctx context.Context, src segno.Source, key segno.TurnKey, wait bool) (at time.Time, over bool, err error)
}

// questionFinder is the ability of a [Transcript] to say whether the user interrupted a
// turn at the question whether the agent may use a tool.
type questionFinder interface {
	AtQuestion(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error)
}

// endedAtQuestion reports whether hooks saw a turn that the user interrupted at such a
// question. No event tells of it.
func (tx *txn) endedAtQuestion(ctx context.Context, t OpenTurn) bool {
	q, ok := tx.Transcripts[t.Agent].(questionFinder)
	if !ok || t.Owner != "" {
		return false
	}
	at, err := q.AtQuestion(ctx, t.Source, t.newestKey())
	return err == nil && at
}

// wasInterrupted reports whether the transcript says by now that a turn was interrupted.
// It does not wait for the agent to write that.
func (tx *txn) wasInterrupted(ctx context.Context, t OpenTurn) bool {
	d, ok := tx.Transcripts[t.Agent].(timestamped)
	if !ok || t.Owner != "" {
		return false
	}
	_, over, err := d.LastOf(ctx, t.Source, t.newestKey(), false)
	return err == nil && over
}

// activityOf returns the evidence about a turn that ended some time ago without an event:
// the user interrupted it, or its agent was killed.
//
// If the agent recorded the interruption, the turn and all its calls ended then. Otherwise
// the turn ended no earlier than its last entry, and a call without a result may have
// worked longer.
func (tx *txn) activityOf(ctx context.Context, t OpenTurn, ended time.Time) (activity, error) {
	entries, _, err := tx.Spool.Entries(ctx, t.Key)
	if err != nil {
		return activity{}, err
	}
	c := activity{start: t.Start, until: t.Start, blind: true}
	for _, e := range entries {
		if e.Time.After(c.until) {
			c.until = e.Time
		}
		c.blind = c.blind && e.Kind != segno.EntryIntent
	}
	var over bool
	if d, ok := tx.Transcripts[t.Agent].(timestamped); ok {
		last, marked, err := d.LastOf(ctx, t.Source, t.newestKey(), ended.IsZero() && !tx.isGone(t))
		if err == nil && !last.IsZero() {
			c.blind = false // the transcript and the hooks name all calls
		}
		if over = err == nil && marked && !last.IsZero(); over {
			c.until = last
		} else if err == nil && last.After(c.until) {
			c.until = last
		}
	}
	if !over && !ended.IsZero() {
		c.until, over = ended, true
	}
	end := time.Time{}
	if c.exact = over; over {
		end = c.until
	}
	c.calls = toolCalls(entries, end, t.taskEnds(entries, c.until, true))
	return c, nil
}
