package timeline

import (
	"slices"

	"github.com/dalsegno/segno"
)

// leg is one unit of an undo: a turn, or one checkpoint.
type leg struct {
	turn  int
	parts []*segno.Checkpoint // its checkpoints, newest first; none if no checkpoint follows its commits
	below []*segno.Checkpoint // the older checkpoints, newest first; undo moves to the first
}

// undoLegs splits a line, newest first, into the legs of an undo, newest first. Checkpoints
// between turns belong to no leg. Neither does the last checkpoint of the line, where the thread
// begins.
func undoLegs(line []*segno.Checkpoint, ask MoveRequest) (legs []leg) {
	for i := 0; i < len(line)-1; i++ {
		to := i + 1
		if !ask.Steps {
			if !endsTurn(line[i]) {
				continue
			}
			to = min(to+countParts(line[i], line[to:]), len(line)-1)
		}
		legs = append(legs, leg{line[i].Turn, line[i:to], line[to:]})
		i = to - 1
	}
	return legs
}

// NewestTurn returns the checkpoints of the turn that an undo of one turn undoes, newest first. The line begins at the head, and
// ends where the thread begins. NewestTurn returns nil if no turn can be undone.
func NewestTurn(line []*segno.Checkpoint) []*segno.Checkpoint {
	if legs := undoLegs(line, MoveRequest{}); len(legs) > 0 {
		return legs[0].parts
	}
	return nil
}

// withOpenTurn adds a leg for the commits between the newest checkpoint of a line and the head.
// If that checkpoint is a step of the open turn, its leg already contains these commits.
func withOpenTurn(legs []leg, line []*segno.Checkpoint, head segno.CommitID, ask MoveRequest) []leg {
	if len(line) == 0 || line[0].ID == head || !ask.Steps && len(legs) > 0 && isOpenEnd(line[0]) {
		return legs
	}
	return slices.Insert(legs, 0, leg{turn: line[0].Turn, below: line})
}

// isOpenEnd reports whether c, the newest checkpoint of a line, is a step of a turn that has not
// ended.
func isOpenEnd(c *segno.Checkpoint) bool { return c.Kind == segno.CheckpointStep && c.Turn > 0 }

// endsTurn reports whether c is the last checkpoint of its turn, provided that no newer
// checkpoint belongs to that turn: a turn of a Go agent may be interrupted at a step.
func endsTurn(c *segno.Checkpoint) bool { return c.Kind == segno.CheckpointTurn || isOpenEnd(c) }

// continuesAbove reports whether the turn of c has a checkpoint in above, oldest first.
func continuesAbove(c *segno.Checkpoint, above []*segno.Checkpoint) bool {
	return slices.ContainsFunc(above, func(x *segno.Checkpoint) bool { return endsTurn(x) && x.Turn == c.Turn })
}

// countParts returns the number of checkpoints in below, newest first, that belong to a turn: its
// steps, and external checkpoints of changes made while it waited.
func countParts(turn *segno.Checkpoint, below []*segno.Checkpoint) (n int) {
	for i, c := range below {
		switch {
		case c.Turn != turn.Turn || c.Kind != segno.CheckpointStep && c.Kind != segno.CheckpointExternal:
			return n
		case c.Kind == segno.CheckpointStep:
			n = i + 1
		}
	}
	return n
}

// redoLeg is one unit of a redo.
type redoLeg struct {
	turn int
	to   int // index in the line of the checkpoint to which it moves; len(line) for the tip above it
}

// redoLegs splits the line above a head, oldest first, into the legs of a redo. The head is at or
// above the first checkpoint. A leg includes the checkpoints between its turn and the next one.
// If open is set, the tip is a commit above the last checkpoint.
func redoLegs(line []*segno.Checkpoint, open bool, ask MoveRequest) (legs []redoLeg) {
	for i, c := range line {
		switch {
		case i == 0:
		case ask.Steps || endsTurn(c) && !continuesAbove(c, line[i+1:]):
			legs = append(legs, redoLeg{c.Turn, i})
		case len(legs) > 0 && !endsTurn(c) && legs[len(legs)-1].to == i-1:
			legs[len(legs)-1].to = i
		}
	}
	if last := len(line) - 1; open && last >= 0 {
		if !ask.Steps && len(legs) > 0 && isOpenEnd(line[last]) {
			legs[len(legs)-1].to = len(line)
		} else {
			legs = append(legs, redoLeg{line[last].Turn, len(line)})
		}
	}
	return legs
}
