package timeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// onlyFlag marks the Args of an undo of some turns alone, and patchFlag those of a move of chosen parts.
const (
	onlyFlag  = " --only"
	patchFlag = " --patch"
)

// isInPlace reports whether an undo changes files only. The thread and the conversation then do not move.
func (a *MoveRequest) isInPlace() bool {
	return len(a.Only) > 0 || len(a.Paths) > 0 || a.Parts != nil
}

// onlyLegs returns the legs of the turns in ask.Only, newest first. It returns an error if a turn is not on
// the line, or if its files were not recorded: a turn without its own state at the end would otherwise
// include the changes of all newer turns.
func (tx *txn) onlyLegs(ctx context.Context, legs []leg, ask MoveRequest, now currentState) ([]leg, error) {
	for _, turn := range ask.Only {
		i := slices.IndexFunc(legs, func(l leg) bool { return l.turn == turn })
		if i < 0 {
			return nil, tx.refuseOffLine(ctx, turn, now)
		}
		if !hasTree(legs[i].parts[0].Workspace) || !hasTree(newestState(legs[i].below)) {
			return nil, segno.Errorf(segno.KindNotFound, "undo", fmt.Sprintf("t%d", turn), "the files before or after the turn were not recorded").
				WithHint(fmt.Sprintf("run 'segno undo t%d' to undo the newer turns, too", turn))
		}
	}
	return slices.DeleteFunc(slices.Clone(legs), func(l leg) bool { return !slices.Contains(ask.Only, l.turn) }), nil
}

// refuseOffLine returns the error for a turn that is not on the line of the head.
func (tx *txn) refuseOffLine(ctx context.Context, turn int, now currentState) error {
	above, err := tx.redoLine(ctx, now.head)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(above, func(c *segno.Checkpoint) bool { return endsTurn(c) && c.Turn == turn }) {
		return segno.Errorf(segno.KindRefused, "undo", "", "turn t%d is undone already", turn).
			WithHint(fmt.Sprintf("run 'segno redo t%d' to bring it back", turn))
	}
	ask := MoveRequest{Verb: segno.VerbUndo, Turn: turn}
	return ask.checkReached(nil)
}

// undoInPlace changes the plan of an undo into one that moves neither the thread nor the conversation. A
// new checkpoint on the head records the result.
func (tx *txn) undoInPlace(ctx context.Context, ask MoveRequest, now currentState, p *Plan, back *reverter) error {
	if err := tx.limitToPaths(ctx, ask, now, p, back); err != nil {
		return err
	}
	p.Args = undoArgs(ask, p.Turns)
	p.Restore, p.Target, p.Tip, p.Session, p.Label = true, now.head.Head, segno.Self, nil, "undo "+p.Args
	if p.Only = len(ask.Only) > 0; p.Only {
		// The files are those of no earlier moment, so the written ones are new for build tools, and git's
		// HEAD stays.
		p.Times, p.gitThen = segno.Hash{}, nil
	}
	if err := p.setSteps(ctx, back); err != nil {
		return err
	}
	if len(p.Steps)+len(p.Conflicts)+len(p.Kept) > 0 {
		return nil
	}
	why := "no change of the turns is left to undo"
	if len(ask.Paths) > 0 {
		why = "the turns left no changes in these paths"
	}
	return segno.Errorf(segno.KindNotFound, "undo", p.Args, "%s", why).
		WithHint(fmt.Sprintf("run 'segno show t%d' to see the changes of a turn", p.Turns[0]))
}

// undoArgs returns the arguments of an undo in place, as a user would type them.
func undoArgs(ask MoveRequest, turns []int) string {
	args := fmt.Sprintf("t%d", turns[len(turns)-1])
	if len(ask.Only) > 0 {
		args = turnArgs(turns) + onlyFlag
	}
	if ask.Parts != nil {
		args += patchFlag
	}
	args += ask.force()
	if len(ask.Paths) > 0 {
		args += " --"
	}
	for _, path := range ask.Paths {
		args += " " + segno.QuotePath(path)
	}
	return args
}

func turnArgs(turns []int) string {
	names := make([]string, len(turns))
	for i, t := range turns {
		names[i] = fmt.Sprintf("t%d", t)
	}
	return strings.Join(names, " ")
}

// OnlyTurns returns the turns of an undo of some turns alone, newest first, from the arguments of its
// operation. It returns nil for other arguments.
func OnlyTurns(args string) (turns []int) {
	names, _, isOnly := strings.Cut(args, onlyFlag)
	if !isOnly {
		return nil
	}
	for name := range strings.FieldsSeq(names) {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "t"))
		if err != nil {
			return nil
		}
		turns = append(turns, n)
	}
	return turns
}

// limitToPaths drops the changes outside ask.Paths.
func (tx *txn) limitToPaths(ctx context.Context, ask MoveRequest, now currentState, p *Plan, back *reverter) error {
	if len(ask.Paths) == 0 {
		return nil
	}
	before, err := tx.treeAt(ctx, p.Target)
	if err != nil {
		return err
	}
	if before.IsZero() {
		return segno.Errorf(segno.KindNotFound, "undo", "", "the checkpoint before the turns has no files").
			WithHint("run 'segno undo' without paths to move the conversation")
	}
	chosen := entities(filterPaths(back.planned(), ask.Paths))
	ask.Paths = slices.DeleteFunc(slices.Clone(ask.Paths), func(path string) bool { return back.files[path] != nil })
	ask.Name = fmt.Sprintf("the beginning of t%d", p.Turns[len(p.Turns)-1])
	if err := tx.checkPaths(ctx, ask, before, now.at.Tree(), now.snap.Tree); err != nil {
		return err
	}
	maps.DeleteFunc(back.files, func(name string, _ *reversal) bool { _, ok := chosen[name]; return !ok })
	return nil
}

// planned returns the change of each path, also of those in conflict.
func (r *reverter) planned() (changes []segno.Change) {
	for name, f := range r.files {
		changes = append(changes, segno.Change{Path: name, From: f.present, To: f.want})
	}
	return changes
}

// count formats a number and a unit, with the plural unless n is 1.
func count(n int, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}
