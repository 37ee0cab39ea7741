package history

import "github.com/dalsegno/segno"

// Operation is one element of op log --json. A later release may add fields, but removes none.
type Operation struct {
	segno.Operation
	Pin           *Pin     `json:"pin,omitempty"`
	Unpinned      string   `json:"unpinned,omitempty"` // the first of UnpinnedNames
	UnpinnedNames []string `json:"unpinned_names,omitempty"`
}

// Pin has the names of a checkpoint after a pin or an unpin.
type Pin struct {
	Checkpoint segno.CommitID `json:"checkpoint"`
	Name       string         `json:"name"` // the first of Names, or ""
	Names      []string       `json:"names"`
}

// Operations converts operations. It splits the names of pins, which an operation stores as one
// text.
func Operations(ops []segno.Operation) []Operation {
	items := make([]Operation, len(ops))
	for i, op := range ops {
		items[i] = Operation{Operation: op, UnpinnedNames: segno.PinNames(op.Unpinned)}
		items[i].Unpinned = append(segno.PinNames(op.Unpinned), "")[0]
		if op.Pin != nil {
			names := append([]string{}, segno.PinNames(op.Pin.Name)...)
			items[i].Pin = &Pin{Checkpoint: op.Pin.Checkpoint, Name: append(names, "")[0], Names: names}
		}
	}
	return items
}
