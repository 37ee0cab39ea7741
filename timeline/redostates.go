package timeline

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// moveBack is a move of the thread over turns, or over steps, of a line. An undo, a restore, or the op undo of a redo went back.
type moveBack struct {
	ops      []segno.Operation // the move, after those that only overwrote its conflicts, newest first
	from, to int               // the positions before and after it; from counts turns above the line, too
	shared   int               // the position of the newest turn of the line that it began at or above
	isKnown  bool              // it went back, and the log shows what it reverted
	age      int               // the number of newer operations in the log
}

// move returns the move itself.
func (b *moveBack) move() *segno.Operation { return &b.ops[len(b.ops)-1] }

// redoPart is the part of a redo over the turns, or steps, from one position of a line to another. moves are those that went over them,
// newest first, of which the newest went back. There are none if a pull or an archive brought the thread, which was below them.
type redoPart struct {
	moves    []*moveBack
	from, to int
}

// transition is the change of the files from one state to another, of some paths, or of all if paths is nil.
type transition struct {
	from, to *segno.Snapshot
	paths    map[string]bool
}

// redoTurns adds the changes of a redo. line is the whole line from the checkpoint from which the redo starts to the tip, and target the
// index of the redo's target in it. Each turn gets back the changes that the newest move over it reverted: if the user had
// removed lines of the turn before that move, these are not among them.
func (r *reverter) redoTurns(ctx context.Context, line []*segno.Checkpoint, target int) error {
	all, err := r.transitions(ctx, line, target, "")
	if err == nil && all == nil {
		return r.redo(ctx, line[:target+1])
	}
	return r.addTransitions(ctx, all, err)
}

// reverseMove adds the changes that undo an operation. Those of an undo are the changes of a redo: a later move may have brought the turns
// back, and after one that went over them again, lines that the user removed in between stay removed. What moves before the undo could not
// make again was not in the state before it.
func (r *reverter) reverseMove(ctx context.Context, op *segno.Operation) error {
	if op.Verb != segno.VerbUndo {
		return r.reverseOperation(ctx, op)
	}
	line, err := r.redoLine(ctx, segno.Head{Head: r.now.head.Head, Tip: op.Before.Head})
	if err != nil {
		return err
	}
	all, err := r.transitions(ctx, line, len(line)-1, op.ID)
	if err == nil && len(all) == 0 { // it stayed at its turn, or the log does not show what the redo would write
		return r.reverseOperation(ctx, op)
	}
	return r.addTransitions(ctx, all, err)
}

func (r *reverter) addTransitions(ctx context.Context, all []transition, err error) error {
	for i := 0; i < len(all) && err == nil; i++ {
		var only func(string) bool
		if paths := all[i].paths; paths != nil {
			only = func(path string) bool { return paths[path] }
		}
		err = r.reverse(ctx, all[i].from, all[i].to, nil, only)
	}
	return err
}

// transitions returns the changes of a redo in the order in which they are made, or nil if the log of operations and the store do not
// show them. If oldest is not "", it makes nothing again that only moves before that one reverted.
func (r *reverter) transitions(ctx context.Context, line []*segno.Checkpoint, target int, oldest segno.OperationID) ([]transition, error) {
	all, err := r.findTransitions(ctx, line, target, oldest)
	if errors.Is(err, segno.KindNotFound) { // a collection removed a state
		return nil, nil
	}
	return all, err
}

func (r *reverter) findTransitions(ctx context.Context, line []*segno.Checkpoint, target int, oldest segno.OperationID) ([]transition, error) {
	index, err := r.newLineIndex(ctx, line[len(line)-1].ID)
	if err != nil {
		return nil, err
	}
	parts, err := r.redoParts(ctx, index, line, target)
	if err != nil {
		return nil, err
	}
	all := []transition{}
	for _, p := range parts {
		var more, unmade []transition
		if p.moves == nil {
			more, err = r.transitionsOfTurns(ctx, index, line, p)
		} else if more, err = r.transitionsOf(ctx, p, p.moves[0]); more != nil {
			unmade, err = r.unmadeBefore(ctx, p, more, oldest)
		}
		if err != nil || more == nil {
			return nil, err
		}
		all = append(append(all, unmade...), more...)
	}
	return all, nil
}

// transitionsOf returns the changes that revert one move for the turns of a part, or nil if they are not known.
func (tx *txn) transitionsOf(ctx context.Context, p redoPart, back *moveBack) ([]transition, error) {
	switch {
	case !back.isKnown || back.to > p.from || back.shared < p.to:
		return nil, nil
	case p.from == back.to && p.to == back.from && back.move().Verb == segno.VerbUndo:
		return tx.transitionsOfUndo(ctx, back)
	}
	return tx.transitionsBetween(ctx, p, back)
}

// redoParts divides a redo by the moves that went back over its turns, oldest turn first.
func (r *reverter) redoParts(ctx context.Context, index *lineIndex, line []*segno.Checkpoint, target int) (parts []redoPart, err error) {
	first, last := index.known[line[0].ID].on, index.known[line[target].ID].on
	all, err := r.movesOver(ctx, index, line[min(1, target)], first, last)
	for i, moves := range all {
		if n := len(parts); n > 0 && slices.Equal(parts[n-1].moves[:min(1, len(parts[n-1].moves))], moves[:min(1, len(moves))]) {
			parts[n-1].to++
			parts[n-1].moves = append(parts[n-1].moves, moves...)
		} else {
			parts = append(parts, redoPart{moves, first + i, first + i + 1})
		}
	}
	for i, p := range parts {
		slices.SortFunc(p.moves, func(a, b *moveBack) int { return a.age - b.age })
		parts[i].moves = slices.Compact(p.moves)
	}
	return parts, err
}

// movesOver returns, for each position of a line after first up to last, the moves that went over it, newest first. since is the oldest
// checkpoint of the redo.
func (r *reverter) movesOver(ctx context.Context, index *lineIndex, since *segno.Checkpoint, first, last int) ([][]*moveBack, error) {
	all, here, age := make([][]*moveBack, last-first), 0, 0
	var finishes []segno.Operation
	undone := map[segno.OperationID]bool{}
	for op, err := range r.operationsUntil(ctx, r.now.until) {
		if err != nil {
			return nil, err
		}
		if age++; op.Undoes != "" {
			undone[op.Undoes] = !undone[op.ID]
		}
		if op.Thread != r.now.head.Thread || !op.MovesFiles() {
			continue
		}
		if isSince, err := r.isSince(ctx, &op, since); err != nil || !isSince {
			return markHere(all, first, here), err
		}
		from, to, err := index.findBoth(ctx, op.Before.Head, op.After.Head)
		if err != nil {
			return nil, err
		}
		if here = max(here, from.on, to.on); from.on == to.on {
			isFinish, err := r.isFinish(ctx, &op)
			if err != nil {
				return nil, err
			}
			if isFinish && !undone[op.ID] {
				finishes = append(finishes, op)
			}
			continue
		}
		move := newMoveBack(append(finishes, op), from, to, age)
		for i := max(min(from.on, to.on), first); i < min(max(from.on, to.on), last); i++ {
			all[i-first] = append(all[i-first], move)
		}
		finishes = nil
	}
	return markHere(all, first, here), nil
}

// newMoveBack makes a move of its operations.
func newMoveBack(ops []segno.Operation, from, to linePos, age int) *moveBack {
	op := ops[len(ops)-1]
	isRecorded := !op.Before.Tree.IsZero() && !op.After.Tree.IsZero()
	return &moveBack{ops, from.on + from.off, to.on, from.on, to.on < from.on && to.off == 0 && isRecorded, age}
}

// markHere marks the turns that were in the directory, as a head of a move at or above them shows, although no move went back over them.
func markHere(all [][]*moveBack, first, here int) [][]*moveBack {
	for i := range all {
		if all[i] == nil && first+i < here {
			all[i] = []*moveBack{{}}
		}
	}
	return all
}

// transitionsOfUndo returns the changes that revert a whole undo and the moves that overwrote its conflicts.
func (tx *txn) transitionsOfUndo(ctx context.Context, back *moveBack) (all []transition, err error) {
	for _, op := range back.ops {
		before, after, err := tx.operationStates(ctx, &op)
		if err != nil {
			return nil, err
		}
		changes, err := tx.changesOf(ctx, &op)
		if err != nil {
			return nil, err
		}
		paths := make(map[string]bool, len(changes))
		for _, c := range changes {
			paths[c.Path] = true
		}
		all = append(all, transition{after, before, paths})
	}
	return all, nil
}

// transitionsOfTurns returns the changes that turns of a line made, with the moves of files among them.
func (tx *txn) transitionsOfTurns(ctx context.Context, index *lineIndex, line []*segno.Checkpoint, p redoPart) ([]transition, error) {
	before, err := tx.stateAt(ctx, line[0].ID)
	if err != nil {
		return nil, err
	}
	all := []transition{}
	for _, c := range line[1:] {
		if !hasTree(c.Workspace) {
			continue
		}
		on := index.known[c.ID].on
		isIn := on <= p.to && (on > p.from || p.from == index.known[line[0].ID].on)
		if isIn && (endsTurn(c) || c.Kind == segno.CheckpointRestore) {
			all = append(all, transition{before, c.Workspace, nil})
		}
		before = c.Workspace
	}
	return all, nil
}

// transitionsBetween returns the change between the states to which a move back would have led if it had stopped above and below the turns
// of a part. It returns nil if these states are not known, or if the move wrote a database.
func (tx *txn) transitionsBetween(ctx context.Context, p redoPart, move *moveBack) ([]transition, error) {
	op := move.move()
	legs, few, many, err := tx.legsOfPart(ctx, p, move)
	if err != nil || legs == nil {
		return nil, err
	}
	before, err := tx.operationState(ctx, op.Before)
	if err != nil {
		return nil, err
	}
	before.World = nil // no state with changes contains databases
	force := len(move.ops) > 1 || op.Verb == segno.VerbRestore || strings.HasSuffix(op.Args, forced)
	back := tx.newReverter(&MoveRequest{Force: force}, currentState{snap: *before})
	var high, low map[string]segno.Entity // of the states above and below the part
	for i := 0; i <= len(legs); i++ {
		if i == few {
			high = entities(back.planned())
		}
		if i == many {
			low = entities(back.planned())
		}
		switch {
		case i == len(legs):
		case legs[i].parts[0].Kind == segno.CheckpointRestore:
			err = back.reverse(ctx, legs[i].parts[0].Workspace, newestState(legs[i].below), nil, nil)
		default:
			err = back.reverseTurn(ctx, legs[i])
		}
		if err != nil {
			return nil, err
		}
	}
	wrote, err := back.writtenBy(ctx, move)
	if err != nil || wrote == nil {
		return nil, err
	}
	var t transition
	if t.to, err = back.stateOfMove(ctx, before, high, wrote); err == nil {
		t.from, err = back.stateOfMove(ctx, before, low, wrote)
	}
	return []transition{t}, err
}

// writtenBy returns the changes that a move, which r planned again, and the moves that overwrote its conflicts made together, also of the
// paths that only differed in between. It returns nil if they wrote a database.
func (r *reverter) writtenBy(ctx context.Context, b *moveBack) (map[string]segno.Change, error) {
	wrote := map[string]segno.Change{}
	for _, op := range slices.Backward(b.ops) {
		changes, err := r.changesOf(ctx, &op)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if _, isDatabase := segno.DatabaseName(c.Path); isDatabase {
				return nil, nil
			}
			if first, ok := wrote[c.Path]; ok {
				c.From = first.From
			} else if f := r.files[c.Path]; f != nil {
				c.From = f.present
			}
			wrote[c.Path] = c
		}
	}
	for name, f := range r.files { // reverted by one turn and restored by another one, so that nothing was written
		if _, ok := wrote[name]; !ok && f.reverted && f.conflict == "" && f.want == f.present {
			wrote[name] = segno.Change{Path: name, From: f.present, To: f.present}
		}
	}
	return wrote, nil
}

// legsOfPart returns the legs of the move back of a part, newest first, and the numbers of those above the part and above its end. It
// returns nil if the part is not made of legs.
func (tx *txn) legsOfPart(ctx context.Context, p redoPart, back *moveBack) (legs []leg, few, many int, err error) {
	line, err := tx.line(ctx, back.move().Before.Head)
	if err != nil {
		return nil, 0, 0, err
	}
	for _, steps := range []bool{false, true} {
		at := map[int]int{} // the number of legs above each position
		on := back.from
		legs = nil
		for _, l := range withMoves(line, undoLegs(line, MoveRequest{Steps: steps})) {
			if _, ok := at[on]; !ok {
				at[on] = len(legs)
			}
			if on <= back.to {
				break
			}
			on -= countEnds(l.parts)
			if hasChanges(l.parts[0], line[0]) || !steps {
				legs = append(legs, l)
			}
		}
		if _, ok := at[on]; !ok {
			at[on] = len(legs)
		}
		few, isAbove := at[p.to]
		many, isEnd := at[p.from]
		if isAbove && isEnd && on == back.to {
			return legs, few, many, nil
		}
	}
	return nil, 0, 0, nil
}

// countEnds returns the number of turns and steps among checkpoints.
func countEnds(parts []*segno.Checkpoint) (n int) {
	for _, c := range parts {
		if endsTurn(c) {
			n++
		}
	}
	return n
}

// hasChanges reports whether the leg of one checkpoint changes files. The newest checkpoint of a line may be a step without a state.
func hasChanges(c, newest *segno.Checkpoint) bool {
	return c.Kind == segno.CheckpointRestore || endsTurn(c) && (hasTree(c.Workspace) || c.ID == newest.ID)
}

// withMoves adds to the legs of a line, newest first, one for each move of files that is in none of them. A redo makes it again with the turn below it.
func withMoves(line []*segno.Checkpoint, legs []leg) (all []leg) {
	at := 0
	for _, l := range legs {
		for ; at < len(line)-len(l.below)-len(l.parts); at++ {
			if line[at].Kind == segno.CheckpointRestore {
				all = append(all, leg{line[at].Turn, line[at : at+1], line[at+1:]})
			}
		}
		all, at = append(all, l), len(line)-len(l.below)
	}
	return all
}

// stateOfMove returns a state on the way of a move back, which r planned again. planned has the entities of that state. A path that no turn
// changed, or that the move did not write, stays as before the move. A path that it wrote and that is a conflict now was reverted with
// the newest turn.
func (r *reverter) stateOfMove(ctx context.Context, before *segno.Snapshot, planned map[string]segno.Entity, wrote map[string]segno.Change) (*segno.Snapshot, error) {
	changes := map[string]segno.Change{}
	for name, c := range wrote {
		switch to, isPlanned := planned[name]; {
		case !isPlanned:
			c.To = c.From
		case r.files[name].conflict == "":
			c.To = to
		}
		changes[name] = c
	}
	for name, c := range changes {
		for dir := path.Dir(name); dir != "." && c.To.Type != segno.EntityNone; dir = path.Dir(dir) {
			if d, ok := changes[dir]; ok && d.From.Type == segno.EntityDir && d.To.Type == segno.EntityNone {
				d.To = d.From // a path in it stays
				changes[dir] = d
			}
		}
	}
	all := slices.DeleteFunc(slices.Collect(maps.Values(changes)), func(c segno.Change) bool { return c.From == c.To })
	if len(all) == 0 {
		return before, nil
	}
	if err := r.stageMerged(ctx, all); err != nil {
		return nil, err
	}
	state, staged, err := r.withChanges(ctx, *before, *before, all)
	if err != nil {
		return nil, err
	}
	return &state, r.keepStaged(ctx, staged)
}
