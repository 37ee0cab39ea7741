package reachable

import (
	"context"
	"errors"
	"iter"

	"github.com/dalsegno/segno"
)

// Query selects objects of a store.
type Query struct {
	At      []segno.CommitID // that the checkpoints of these commits reach
	Without []segno.CommitID // except those that the line of these commits reaches at its newest checkpoint
	Thread  segno.ThreadID   // also those of the sessions in the chain of this thread, which no checkpoint may reach
}

// Objects yields the names of the selected objects, each once. An object that others refer to comes after the object
// that refers to it.
func Objects(ctx context.Context, s segno.Store, q Query) iter.Seq2[segno.Hash, error] {
	return func(yield func(segno.Hash, error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		w := &walker{store: s, seen: map[segno.Hash]bool{{}: true}, end: end}
		for _, id := range q.Without {
			if err := w.newest(ctx, id); err != nil {
				yield(segno.Hash{}, err)
				return
			}
		}
		w.yield = func(name segno.Hash) bool { return yield(name, nil) }
		err := w.commits(ctx, q.At)
		if err == nil && q.Thread != "" {
			err = w.chain(ctx, q.Thread)
		}
		if err != nil && !w.ended {
			yield(segno.Hash{}, err)
		}
	}
}

// walker visits objects.
type walker struct {
	store segno.Store
	trace Tracer
	seen  map[segno.Hash]bool
	yield func(segno.Hash) bool // nil marks objects as seen
	ended bool                  // the caller wants no more
	end   func()                // ends the context of the reads under way
}

// errEnded ends a walk whose caller wants no more objects.
var errEnded = errors.New("ended")

func (w *walker) visit(name segno.Hash) bool {
	if w.ended || w.seen[name] {
		return false
	}
	w.seen[name] = true
	if w.ended = w.yield != nil && !w.yield(name); w.ended {
		w.end()
	}
	return !w.ended
}

func (w *walker) checkpoint(ctx context.Context, c *segno.Checkpoint) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.trace.Trace(ctx, w.store.Objects(), *c, w.visit); err != nil {
		return MissingIsCorrupt(err)
	}
	for _, name := range c.Refs() {
		w.visit(name)
	}
	if w.ended {
		return errEnded
	}
	return nil
}

// MissingIsCorrupt returns the error of a read of an object that a record names: if the object is missing, the store is
// damaged.
func MissingIsCorrupt(err error) error {
	if segno.KindOf(err) == segno.KindNotFound {
		return segno.Errorf(segno.KindCorrupt, "", "", "%w", err).WithHint("run 'segno check' on the store that has the thread")
	}
	return err
}

func (w *walker) commits(ctx context.Context, ids []segno.CommitID) error {
	for _, id := range ids {
		line, err := w.store.Load(ctx, id, segno.Window{Last: 1})
		if err != nil {
			return err
		}
		if c := line.Commits[0].Checkpoint; c != nil {
			if err := w.checkpoint(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest visits the objects of the newest checkpoint of a line.
func (w *walker) newest(ctx context.Context, id segno.CommitID) error {
	for n, err := range segno.Ancestors(ctx, w.store, id, segno.Window{Last: 4}) {
		if err != nil {
			return err
		}
		if n.Checkpoint != nil {
			return w.checkpoint(ctx, n.Checkpoint)
		}
	}
	return nil
}

// chain visits the objects of sessions that segno has cut and that the user may not have prompted yet.
func (w *walker) chain(ctx context.Context, thread segno.ThreadID) error {
	chains, ok := w.store.(segno.Chains)
	if !ok {
		return nil
	}
	for l, err := range chains.Chain(ctx, thread) {
		if err == nil && l.Position != nil {
			err = w.checkpoint(ctx, &segno.Checkpoint{Session: l.Position})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
