package moves

import (
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/timeline"
)

// TestMovedListsWhatACommandChanged checks that the result of a move lists the files that changed while a command ran,
// because a user who gave -y saw no plan.
func TestMovedListsWhatACommandChanged(t *testing.T) {
	plan := &timeline.Plan{Turns: []int{1}}
	plan.Verb = segno.VerbUndo
	var text Text
	text.Moved(&timeline.MoveResult{Plan: plan, Head: &segno.Checkpoint{}}, Result{Changes: []history.Change{
		{Sign: "~", Path: "named"}, {Sign: "~", Path: "merged", Merged: true}, {Sign: "~", Path: "made", WhileCommand: true},
	}})
	want := []string{"  ~ merged  merged", "  changed while a command ran, by no tool that names the file:", "  ~ made"}
	if got := text.Lines(); !slices.Equal(got[1:], want) {
		t.Errorf("the lines are %q, want %q after the first", got, want)
	}
}

// TestReasonsControlNoTerminal lists paths with reasons of an imported store, which may contain anything.
func TestReasonsControlNoTerminal(t *testing.T) {
	const why = "large\x1b[2J\nforged line"
	var text Text
	text.Conflicts([]UnwrittenPath{{Path: "a", Why: why}}, 0)
	text.Moved(&timeline.MoveResult{Plan: &timeline.Plan{}, Head: &segno.Checkpoint{}}, Result{Kept: []UnwrittenPath{{Path: "b", Why: why}}})
	for _, line := range text.Lines() {
		if strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("a line is %q", line)
		}
	}
}
