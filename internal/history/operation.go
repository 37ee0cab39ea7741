package history

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// Operation is one element of op log --json. A later release may add fields, but removes none.
type Operation struct {
	segno.Operation
	Pin           *Pin     `json:"pin,omitempty"`
	Unpinned      string   `json:"unpinned,omitempty"` // the first of UnpinnedNames
	UnpinnedNames []string `json:"unpinned_names,omitempty"`
	Undone        bool     `json:"undone"` // an op undo that is in effect undid it
}

// Pin has the names of a checkpoint after a pin or an unpin.
type Pin struct {
	Checkpoint segno.CommitID `json:"checkpoint"`
	Name       string         `json:"name"` // the first of Names, or ""
	Names      []string       `json:"names"`
}

// Operations converts operations, newest first. It splits the names of pins, which an operation stores as one text.
func Operations(ops []segno.Operation) []Operation {
	items := make([]Operation, len(ops))
	undone := map[segno.OperationID]bool{}
	for i, op := range ops {
		if op.Undoes != "" {
			undone[op.Undoes] = !undone[op.ID]
		}
		items[i] = Operation{Operation: op, Undone: undone[op.ID], UnpinnedNames: segno.PinNames(op.Unpinned)}
		items[i].Unpinned = append(segno.PinNames(op.Unpinned), "")[0]
		if op.Pin != nil {
			names := append([]string{}, segno.PinNames(op.Pin.Name)...)
			items[i].Pin = &Pin{Checkpoint: op.Pin.Checkpoint, Name: append(names, "")[0], Names: names}
		}
	}
	return items
}

// promptBelow returns the title of a turn at or below a checkpoint, or "". turn is its number, or 0 for the newest one.
func promptBelow(ctx context.Context, store segno.Store, at segno.CommitID, turn int) (string, error) {
	for n, err := range segno.Ancestors(ctx, store, at, segno.Window{Last: 4}) {
		switch {
		case segno.KindOf(err) == segno.KindNotFound: // it was collected
			return "", nil
		case err != nil:
			return "", err
		case n.Checkpoint != nil && n.Checkpoint.Kind == segno.CheckpointTurn && (turn == 0 || turn == n.Checkpoint.Turn):
			return timeline.Title(n.Checkpoint.Prompt), nil
		}
	}
	return "", nil
}

// About returns the title of the newest turn that an undo or a redo moved over, or "" for another operation.
func (op *Operation) About(ctx context.Context, store segno.Store) (string, error) {
	switch op.Verb {
	case segno.VerbUndo:
		if only := timeline.OnlyTurns(op.Args); len(only) > 0 {
			return promptBelow(ctx, store, op.Before.Head, only[0])
		}
		return promptBelow(ctx, store, op.Before.Head, 0)
	case segno.VerbRedo:
		return promptBelow(ctx, store, op.After.Head, 0)
	}
	return "", nil
}
