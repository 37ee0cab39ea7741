package workspace_test

import (
	"testing"

	"github.com/dalsegno/segno/workspace"
)

// TestApplyReportsItsProgress checks that the progress of an Apply only increases, and ends with all of the work.
func TestApplyReportsItsProgress(t *testing.T) {
	j := newRestoreFixture(t)
	var last, all int64
	calls := 0
	dir := j.other(workspace.Options{Index: j.index, Applied: func(done, total int64) {
		if done < last || done > total {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last, all = done, total
		calls++
	}})
	if conflicts, err := dir.Apply(ctx(t), j.steps, j.first.Times); err != nil || conflicts != nil {
		t.Fatalf("%v, %v", conflicts, err)
	}
	if last != all || calls < 2*len(j.steps) {
		t.Errorf("the progress of %d steps ended at %d of %d after %d calls", len(j.steps), last, all, calls)
	}
}
