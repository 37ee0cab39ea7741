package timeline

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/phase"
)

// Retention decides which old turns a store keeps. A turn stays, with all its ancestors, if any rule
// keeps it. The lines of pins, forks and members always stay, and so do those of the head and the tip
// of a thread that stays. A rule therefore drops lines that an undo or a restore left, and whole
// threads. A thread always stays if it, or one of its parts, runs, waits for a decision or has a pin.
// The zero Retention keeps everything.
type Retention struct {
	// KeepFor keeps younger checkpoints; 0 disables the rule.
	KeepFor time.Duration
	// KeepTurns keeps the newest turns of each thread; 0 disables the rule.
	KeepTurns int
}

// IsZero reports whether r keeps everything.
func (r Retention) IsZero() bool { return r.KeepFor <= 0 && r.KeepTurns <= 0 }

// Expired returns the threads to delete: r keeps none of their turns, and none of the turns of their
// parts. They are in the order of [segno.Store].Threads. The caller deletes the threads with [DeleteWhole] or [Purge], after
// checking that none of their turns is open elsewhere.
func (r Retention) Expired(ctx context.Context, s segno.Store, now time.Time) ([]segno.ThreadID, error) {
	if r.KeepFor <= 0 || r.KeepTurns > 0 {
		return nil, nil // KeepTurns keeps turns of every thread
	}
	all, err := threadIDs(ctx, s, segno.ThreadQuery{TopLevel: true})
	if err != nil {
		return nil, err
	}
	var expired []segno.ThreadID
	for _, id := range all {
		parts, err := withParts(ctx, s, id)
		if segno.KindOf(err) == segno.KindNotFound {
			continue // the thread was deleted meanwhile
		}
		keeps := false
		for i := 0; i < len(parts) && !keeps && err == nil; i++ {
			keeps, err = keepsThread(ctx, s, parts[i], now.Add(-r.KeepFor))
		}
		if err != nil {
			return nil, err
		}
		if !keeps {
			expired = append(expired, id)
		}
	}
	return expired, nil
}

// keepsThread reports whether a thread has something that stays: a checkpoint since the given time, a
// pin, a lease or a question.
func keepsThread(ctx context.Context, s segno.Store, thread segno.ThreadID, since time.Time) (bool, error) {
	for _, q := range []segno.CheckpointQuery{{Thread: thread, Limit: 1}, {Thread: thread, Pinned: true, Limit: 1}} {
		for c, err := range s.Checkpoints(ctx, q) {
			if err != nil || q.Pinned || c.Time.IsZero() || !c.Time.Before(since) {
				return true, err
			}
		}
	}
	if leaser, ok := s.(segno.Leaser); ok {
		if held, err := leaser.LeaseOf(ctx, thread); err != nil || held.Owner != "" {
			return true, err
		}
	}
	head, err := s.Head(ctx, thread)
	if err != nil || head.Head == "" {
		return true, err
	}
	phase, err := phase.Read(ctx, s, head.Head)
	return phase == segno.PhaseWaiting, err
}

// Lines returns the lines that a collection keeps although neither head nor tip reaches them, for
// [segno.CollectPolicy]. nil means all lines.
func (r Retention) Lines(ctx context.Context, s segno.Store, now time.Time) (*segno.RetainedLines, error) {
	if r.IsZero() {
		return nil, nil
	}
	// Without KeepFor, only the number of a checkpoint keeps it.
	keep := &segno.RetainedLines{Since: now.Add(-max(r.KeepFor, 0)), Newest: map[segno.ThreadID]int64{}, Waiting: map[segno.CommitID]bool{}}
	all, err := threadIDs(ctx, s, segno.ThreadQuery{})
	if err != nil {
		return nil, err
	}
	for _, id := range all {
		if err := retainThread(ctx, s, keep, id, r.KeepTurns); err != nil {
			return nil, err
		}
	}
	return keep, nil
}

// retainThread determines which turns of a thread stay because of their number, and which of its lines
// wait.
func retainThread(ctx context.Context, s segno.Store, k *segno.RetainedLines, thread segno.ThreadID, turns int) error {
	const none = 1 << 62
	k.Newest[thread] = none
	seen, parents := map[int]bool{}, map[segno.CommitID]bool{}
	var ends []segno.CommitID
	for c, err := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		if err != nil {
			return err
		}
		if seen[c.Turn] || len(seen) < turns {
			seen[c.Turn], k.Newest[thread] = true, c.Seq
		}
		if !parents[c.ID] && !k.Keeps(&c) {
			ends = append(ends, c.ID)
		}
		parents[c.Parent] = true
	}
	for _, id := range ends {
		phase, err := phase.Read(ctx, s, id)
		if err != nil {
			return err
		}
		k.Waiting[id] = phase == segno.PhaseWaiting
	}
	return nil
}
