package timeline

import (
	"context"
	"fmt"
	"maps"

	"github.com/dalsegno/segno"
)

// undoPaths limits the plan of an undo to some paths. The thread and the conversation do not
// move. A new checkpoint on the head records the result. Paths that already have their state
// from before the turns stay unchanged.
func (tx *txn) undoPaths(ctx context.Context, ask MoveRequest, now currentState, p *Plan, back *reverter) error {
	before, err := tx.treeAt(ctx, p.Target)
	if err != nil {
		return err
	}
	if before.IsZero() {
		return segno.Errorf(segno.KindNotFound, "undo", "", "the checkpoint before the turns has no files").
			WithHint("run 'segno undo' without paths to move the conversation")
	}
	ask.Name = fmt.Sprintf("the beginning of t%d", p.Turns[len(p.Turns)-1])
	if err := tx.checkPaths(ctx, ask, before, now.at.Tree(), now.snap.Tree); err != nil {
		return err
	}
	changes, err := tx.diff(ctx, now.snap.Tree, before)
	if err != nil {
		return err
	}
	chosen := entities(filterPaths(changes, ask.Paths))
	maps.DeleteFunc(back.files, func(name string, _ *reversal) bool { _, ok := chosen[name]; return !ok })
	p.Args = fmt.Sprintf("t%d%s --", p.Turns[len(p.Turns)-1], ask.force())
	for _, path := range ask.Paths {
		p.Args += " " + segno.QuotePath(path)
	}
	p.Restore, p.Target, p.Tip, p.Session, p.Label = true, now.head.Head, segno.Self, nil, "undo "+p.Args
	if err := p.setSteps(ctx, back); err != nil {
		return err
	}
	if len(p.Steps)+len(p.Conflicts)+len(p.Kept) == 0 {
		return segno.Errorf(segno.KindNotFound, "undo", p.Args, "the turns left no changes in these paths").
			WithHint(fmt.Sprintf("run 'segno show t%d' to see the changes of a turn", p.Turns[0]))
	}
	return nil
}

// count formats a number and a unit, with the plural unless n is 1.
func count(n int, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}
