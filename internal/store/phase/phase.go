// Package phase finds threads by their phase in an index that a store keeps.
package phase

import (
	"context"
	"iter"

	"github.com/dalsegno/segno"
)

// Found is a thread in an index.
type Found struct {
	Thread segno.Thread
	Phase  segno.Phase
	Head   segno.CommitID
	Seq    int64
}

// Index is a store's index of its threads by phase.
type Index interface {
	// InPhase returns at least the first n threads, in the order of their ids and after a cursor,
	// that are in a phase or in [segno.PhaseUnknown]. If there is an error, it also returns the
	// threads that it could read.
	InPhase(ctx context.Context, p segno.Phase, after segno.ThreadID, n int) ([]Found, error)
	// Remember records the phase of a thread, unless the thread has changed since f was read. It
	// may do nothing if the store cannot be written.
	Remember(ctx context.Context, f Found, p segno.Phase) error
}

// page is the number of threads that are read at a time.
const page = 128

// Check returns an error for a query that combines phase and cursor in a way that has no meaning.
func Check(q *segno.ThreadQuery) error {
	if q.After != "" && q.Phase == segno.PhaseUnknown || q.Phase > segno.PhaseWaiting || q.Phase != segno.PhaseUnknown && q.Session != "" {
		return segno.Errorf(segno.KindInvalid, "list threads", "", "a cursor needs a phase, a phase is one of three, and goes with no session")
	}
	return nil
}

// Threads yields the threads of a query that names a phase. If the index does not know the phase of
// a thread, Threads reads it from the thread's line and records it in the index.
func Threads(ctx context.Context, s segno.Store, x Index, q segno.ThreadQuery) iter.Seq2[segno.Thread, error] {
	return func(yield func(segno.Thread, error) bool) {
		n := 0
		for after := q.After; ; {
			found, err := x.InPhase(ctx, q.Phase, after, page)
			for i := range found {
				f := &found[i]
				after = f.Thread.ID
				match, matchErr := matches(ctx, s, x, f, &q)
				if matchErr != nil {
					yield(segno.Thread{}, matchErr)
					return
				}
				if !match {
					continue
				}
				if n++; !yield(f.Thread, nil) || n == q.Limit {
					return
				}
			}
			if err != nil {
				yield(segno.Thread{}, err)
				return
			}
			if len(found) < page {
				return
			}
		}
	}
}

// matches reports whether a thread matches q.
func matches(ctx context.Context, s segno.Store, x Index, f *Found, q *segno.ThreadQuery) (bool, error) {
	if !q.Matches(&f.Thread) {
		return false, nil
	}
	if f.Phase == segno.PhaseUnknown {
		p, err := Read(ctx, s, f.Head)
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			return false, nil // deleted and collected in the meantime
		}
		if err != nil {
			return false, err
		}
		if err := x.Remember(ctx, *f, p); err != nil {
			return false, err
		}
		f.Phase = p
	}
	return f.Phase == q.Phase, nil
}
