package web

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// historyOf returns the history of checkpoints, oldest first, with a head.
func historyOf(all []segno.Checkpoint, head int) *threadHistory {
	h := &threadHistory{History: &history.History{Pins: map[segno.CommitID][]string{}}, shown: all, index: map[segno.CommitID]int{},
		places: layOutTree(all, head)}
	h.Head.Head = all[head].ID
	for i := range all {
		if h.index[all[i].ID] = i; all[i].Kind == "" {
			all[i].Kind = segno.CheckpointTurn
		}
	}
	return h
}

// describe writes the rows of a view from the top: the number of a checkpoint, "_" before a row of another line, and the
// number of folded checkpoints.
func (v *lineView) describe() (rows []string) {
	for _, r := range slices.Backward(v.rows) {
		text := fmt.Sprint(r.index)
		if r.view.Inner {
			text = "_" + text
		}
		if f := r.view.Fold; f != nil {
			text += fmt.Sprint(" +", f.Total)
		}
		rows = append(rows, text)
	}
	return rows
}

// After three undos, each followed by a new turn, the view has one line with the head at the top, and three folds.
func TestViewOfALineAfterUndos(t *testing.T) {
	// 0 - 1 - 2 - 3; undo to 1, then 4 - 5; undo to 4, then 6 - 7; undo to 6, 6 is the head.
	h := historyOf(tree(-1, 0, 1, 2, 1, 4, 4, 6), 6)
	if got := viewOf(h, nil, false, -1).describe(); !slices.Equal(got, []string{"6 +1", "4 +1", "1 +2", "0"}) {
		t.Errorf("the view is %q", got)
	}
	v := viewOf(h, []segno.CommitID{"c1"}, false, -1)
	if got := v.describe(); !slices.Equal(got, []string{"6 +1", "4 +1", "1 +2", "_3", "_2", "0"}) {
		t.Errorf("with the lines of 1 the view is %q", got)
	}
	if !v.rows[3].view.Branch || !v.rows[2].view.Branch || v.rows[1].view.Branch {
		t.Errorf("the branch of 1 is %+v", v.rows)
	}
	if got := viewOf(h, nil, false, 5).describe(); !slices.Equal(got, []string{"6 +1", "4 +1", "_5", "1 +2", "0"}) {
		t.Errorf("around 5 the view is %q", got)
	}
}

// Checkpoints that segno made for itself are hidden, and checkpoints that the user named are not folded.
func TestViewHidesSegnosOwnCheckpoints(t *testing.T) {
	all := tree(-1, 0, 1, 2, 3, 2, 5)
	all[2].Kind = segno.CheckpointExternal // without files
	all[4].Kind, all[4].Label = segno.CheckpointSave, "mine"
	all[6].Kind, all[6].Label = segno.CheckpointExternal, "kept after redo"
	h := historyOf(all, 5)
	v := viewOf(h, nil, false, -1)
	if got := v.describe(); !slices.Equal(got, []string{"5", "2 +1", "_4", "1", "0"}) || v.hidden != 1 {
		t.Errorf("the view is %q and hides %d", got, v.hidden)
	}
	h.Head.Head = all[6].ID
	h.places = layOutTree(all, 6)
	if got := viewOf(h, nil, false, -1).describe(); got[0] != "6" {
		t.Errorf("the head is not at the top: %q", got)
	}
	all[5].Kind = segno.CheckpointExternal
	if v := viewOf(h, nil, false, -1); v.hidden != 1 || len(v.rows) != 5 {
		t.Errorf("the view is %q and hides %d", v.describe(), v.hidden)
	}
	if v := viewOf(h, nil, true, -1); v.hidden != 0 || len(v.rows) != 6 {
		t.Errorf("with segno's own, the view is %q and hides %d", v.describe(), v.hidden)
	}
}

// In any tree, a view with all folds open has each checkpoint once, and the head is at the top.
func TestViewHasEachCheckpointOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents := []int{-1}
		for i := 1; i < rapid.IntRange(1, 100).Draw(t, "n"); i++ {
			parents = append(parents, rapid.IntRange(-1, i-1).Draw(t, "parent"))
		}
		head := rapid.IntRange(0, len(parents)-1).Draw(t, "head")
		h := historyOf(tree(parents...), head)
		var open []segno.CommitID
		for i := range h.shown {
			open = append(open, h.shown[i].ID)
		}
		seen := map[int]bool{}
		v := viewOf(h, open, true, -1)
		for _, r := range v.rows {
			if seen[r.index] {
				t.Fatalf("%d is there twice", r.index)
			}
			seen[r.index] = true
			if r.view.Inner == h.places[r.index].onLine {
				t.Fatalf("%d is on the line: %v", r.index, h.places[r.index].onLine)
			}
		}
		if len(seen) != len(h.shown) || v.rows[len(v.rows)-1].index != head {
			t.Fatalf("the view is %q", v.describe())
		}
	})
}
