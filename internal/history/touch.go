package history

import (
	"context"
	"iter"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// Touch is one change of a path in the history of a thread.
type Touch struct {
	At *segno.Checkpoint // the checkpoint that changed the path
	// Before is the checkpoint with the path as it was before the change. It is nil if the thread begins with At.
	Before *segno.Checkpoint
	Change segno.Change
}

// Touches yields the checkpoints of a list that changed a path, in the order of the list. It compares the entity at the
// path in the tree of each checkpoint and in the tree before it. It reads only the directories above the path, and each
// tree once, so that its cost does not depend on the size of a workspace.
func (h *History) Touches(ctx context.Context, objects segno.Objects, list []segno.Checkpoint, path string) iter.Seq2[Touch, error] {
	return func(yield func(Touch, error) bool) {
		known := map[segno.Hash]segno.Entity{}
		entity := func(tree segno.Hash) (segno.Entity, error) {
			e, ok := known[tree]
			if ok || tree.IsZero() {
				return e, nil
			}
			e, err := workspace.Lookup(ctx, objects, tree, path)
			if err != nil && segno.KindOf(err) != segno.KindNotFound {
				return e, err
			}
			known[tree] = e
			return e, nil
		}
		for i := range list {
			t := Touch{At: &list[i], Before: h.ParentWithFiles(&list[i])}
			tree, before := t.At.Tree(), segno.Hash{}
			if t.Before != nil {
				before = t.Before.Tree()
			}
			if tree == before || tree.IsZero() || t.Before != nil && before.IsZero() {
				continue
			}
			var err error
			t.Change.Path = path
			if t.Change.From, err = entity(before); err == nil {
				t.Change.To, err = entity(tree)
			}
			if err != nil || t.Change.From != t.Change.To {
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
	}
}
