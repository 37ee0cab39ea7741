package timeline

import (
	"slices"
	"testing"

	"github.com/dalsegno/segno"
)

// TestATurnWithoutItsStateIsNotUndoneAlone undoes turns alone of which one has no state at its end, and the newest one no state
// before it.
func TestATurnWithoutItsStateIsNotUndoneAlone(t *testing.T) {
	state := &segno.Snapshot{Tree: segno.HashOf([]byte("tree"))}
	turn := func(n int, kind segno.CheckpointKind, s *segno.Snapshot) *segno.Checkpoint {
		return &segno.Checkpoint{Turn: n, Kind: kind, Workspace: s}
	}
	line := []*segno.Checkpoint{turn(5, segno.CheckpointTurn, state), turn(4, segno.CheckpointTurn, nil), turn(3, segno.CheckpointStep, nil),
		turn(2, segno.CheckpointTurn, state), turn(1, segno.CheckpointTurn, state), turn(0, segno.CheckpointBase, state)}
	legs := undoLegs(line, MoveRequest{})
	for _, x := range []struct {
		only, want []int
		kind       error
	}{
		{[]int{2}, []int{2}, nil},
		{[]int{1, 2}, []int{2, 1}, nil},
		{[]int{3}, nil, segno.KindNotFound}, // its run was killed
		{[]int{4}, nil, segno.KindNotFound}, // its files were not recorded
		{[]int{2, 4}, nil, segno.KindNotFound},
		{[]int{5}, nil, segno.KindNotFound}, // the files before it were not recorded
	} {
		var tx *txn
		picked, err := tx.onlyLegs(t.Context(), legs, MoveRequest{Only: x.only}, currentState{})
		var turns []int
		for _, l := range picked {
			turns = append(turns, l.turn)
		}
		if x.kind == nil && err != nil || x.kind != nil && segno.KindOf(err) != x.kind || !slices.Equal(turns, x.want) {
			t.Errorf("%v alone: %v, %v; want %v, %v", x.only, turns, err, x.want, x.kind)
		}
	}
}

func TestOnlyTurns(t *testing.T) {
	for args, want := range map[string][]int{
		"t7 --only": {7}, "t9 t7 --only": {9, 7}, "t7 --only --force": {7}, "t7 --only --patch -- a": {7},
		"": nil, "2": nil, "t7": nil, "t7 --": nil, "t7 -- --only": nil, "t7 -- a --only": nil, "--only": nil,
	} {
		if got := OnlyTurns(args); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", args, got, want)
		}
	}
}
