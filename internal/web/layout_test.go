package web

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
)

// tree returns checkpoints, oldest first. Number i has the parent parents[i].
func tree(parents ...int) []segno.Checkpoint {
	all := make([]segno.Checkpoint, len(parents))
	for i, p := range parents {
		all[i].ID = segno.CommitID(fmt.Sprint("c", i))
		if p >= 0 {
			all[i].Parent = segno.CommitID(fmt.Sprint("c", p))
		}
	}
	return all
}

func layOutTree(all []segno.Checkpoint, head int) []place {
	newestFirst := slices.Clone(all)
	slices.Reverse(newestFirst)
	return layOut(newestFirst, all[head].ID)
}

func TestLayout(t *testing.T) {
	// 0 - 1 - 2 - 3, undone to 1, then 4; then 5 from 2.
	places := layOutTree(tree(-1, 0, 1, 2, 1, 2), 4)
	lanes := []int{}
	for _, p := range places {
		lanes = append(lanes, p.lane)
	}
	if !slices.Equal(lanes, []int{0, 0, 0, 2, 1, 0}) {
		t.Errorf("lanes %v", lanes)
	}
	onLine := []bool{}
	for _, p := range places {
		onLine = append(onLine, p.onLine)
	}
	if !slices.Equal(onLine, []bool{true, true, false, false, true, false}) {
		t.Errorf("on the line: %v", onLine)
	}
	if p := places[2]; !slices.Equal(p.joins, []int{0, 2}) || !slices.Equal(p.through, []int{1}) {
		t.Errorf("the place of 2: %+v", p)
	}
	if p := places[1]; !slices.Equal(p.joins, []int{0, 1}) || len(p.through) != 0 {
		t.Errorf("the place of 1: %+v", p)
	}
}

// TestLayoutDrawsEachEdge follows, in any tree, the lane of each checkpoint down to its parent.
func TestLayoutDrawsEachEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents := []int{-1}
		for i := 1; i < rapid.IntRange(1, 200).Draw(t, "n"); i++ {
			parents = append(parents, rapid.IntRange(max(-1, i-80), i-1).Draw(t, "parent"))
		}
		places := layOutTree(tree(parents...), len(parents)-1)
		for i, p := range places {
			if p.parent != parents[i] || p.lane < 0 || p.lane >= maxLanes || slices.Contains(p.through, p.lane) && p.lane < maxLanes-1 {
				t.Fatalf("%d: %+v, parent %d", i, p, parents[i])
			}
			for row := i - 1; p.parent >= 0 && row > p.parent; row-- {
				if !slices.Contains(places[row].through, p.lane) {
					t.Fatalf("the line of %d in lane %d is not in row %d: %+v", i, p.lane, row, places[row])
				}
			}
			if p.parent >= 0 && !slices.Contains(places[p.parent].joins, p.lane) {
				t.Fatalf("the line of %d in lane %d does not join %d: %+v", i, p.lane, p.parent, places[p.parent])
			}
		}
	})
}

func TestLayoutOfDamagedHistories(t *testing.T) {
	cycle := tree(1, 0, 2)
	for i, p := range layOutTree(cycle, 2) {
		if p.parent >= i {
			t.Errorf("%d has the parent %d", i, p.parent)
		}
	}
	layOutTree(tree(-1, -1), 0)
	layOut(nil, "x")
}
