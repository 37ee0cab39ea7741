package timeline

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// PreviewRestore is [Timeline.Preview] for a restore. It also returns the paths at which the restore
// replaces changes that no turn of the thread made: changes of the user or of other sessions. An undo
// of the same turns would keep these changes.
func (tl *Timeline) PreviewRestore(ctx context.Context, ask MoveRequest) (p *Plan, replaced []string, err error) {
	tx, err := tl.prepareMove(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer tx.unlock()
	p, now, err := tx.plan(ctx, ask)
	if err != nil {
		return nil, nil, err
	}
	if replaced, err = tx.replacedBy(ctx, p, ask, now); err != nil {
		return nil, nil, err
	}
	return p, replaced, tx.keepStaged(ctx, now.staged)
}

// replacedBy returns the paths of a restore's steps that would have another state after an undo down to
// the newest common ancestor of the head and the target than they have at that ancestor.
func (tx *txn) replacedBy(ctx context.Context, p *Plan, ask MoveRequest, now currentState) (paths []string, err error) {
	line, err := tx.line(ctx, now.head.Head)
	if err != nil {
		return nil, err
	}
	target, err := tx.line(ctx, ask.To)
	if err != nil {
		return nil, err
	}
	common := slices.IndexFunc(line, func(c *segno.Checkpoint) bool { return slices.ContainsFunc(target, hasID(c.ID)) })
	if common < 0 || !hasTree(newestState(line[common:])) {
		return nil, nil
	}
	back := tx.newReverter(&MoveRequest{Verb: segno.VerbUndo}, now)
	for _, leg := range undoLegs(line, MoveRequest{}) {
		if len(line)-len(leg.below) > common {
			break
		}
		if err := back.reverseTurn(ctx, leg); err != nil {
			return nil, err
		}
	}
	changes, err := tx.diffStates(ctx, newestState(line[common:]), &now.snap)
	if err != nil {
		return nil, err
	}
	steps := entities(p.Steps)
	for _, c := range changes {
		if _, isStep := steps[c.Path]; isStep && !back.files[c.Path].writes(c.From) && !ownership.IsDirChange(c) {
			paths = append(paths, c.Path)
		}
	}
	return paths, nil
}
