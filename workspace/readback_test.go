package workspace_test

import (
	"os"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// applyThen restores the files a, b, c and gone of two states, and calls then after all of them were written and before Apply reads them
// back.
func applyThen(t *testing.T, then func(p *fixture)) (*fixture, []segno.Conflict, error) {
	p := newFixture(t)
	for _, name := range []string{"a", "b", "c"} {
		p.write(name, "1")
	}
	first := p.save()
	for _, name := range []string{"a", "b", "c", "gone"} {
		p.write(name, "2")
	}
	second := p.save()
	dir := p.other(workspace.Options{Index: p.index, Applied: func(done, total int64) {
		if done*3 == total*2 {
			then(p)
		}
	}})
	conflicts, err := dir.Apply(ctx(t), p.diff(second, first), first.Times)
	return p, conflicts, err
}

// TestAFileThatIsSavedDuringAnApply checks that Apply succeeds if another process changes, replaces, removes or makes files that Apply
// has just written or removed. Their content stays.
func TestAFileThatIsSavedDuringAnApply(t *testing.T) {
	p, conflicts, err := applyThen(t, func(p *fixture) {
		p.write("a", "mine")
		if err := os.WriteFile(p.path("../new"), []byte("3"), 0o644); err != nil {
			t.Error(err)
		}
		if err := os.Rename(p.path("../new"), p.path("b")); err != nil {
			t.Error(err)
		}
		if err := os.Remove(p.path("c")); err != nil {
			t.Error(err)
		}
		p.write("gone", "again")
	})
	if err != nil || len(conflicts) > 0 {
		t.Fatalf("%v, %v", conflicts, err)
	}
	if a, b, gone := p.read("a"), p.read("b"), p.read("gone"); a != "mine" || b != "3" || gone != "again" {
		t.Errorf("the files are %q, %q and %q", a, b, gone)
	}
	if _, err := os.Lstat(p.path("c")); !os.IsNotExist(err) {
		t.Errorf("c: %v", err)
	}
}

// TestApplyReportsContentThatItDidNotWrite checks that Apply fails if the disk has another content than Apply wrote.
func TestApplyReportsContentThatItDidNotWrite(t *testing.T) {
	_, _, err := applyThen(t, func(p *fixture) {
		fi, err := os.Lstat(p.path("a"))
		if err != nil {
			t.Fatal(err)
		}
		p.write("a", "x")
		if err := os.Chtimes(p.path("a"), time.Time{}, fi.ModTime()); err != nil {
			t.Fatal(err)
		}
	})
	if segno.KindOf(err) != segno.KindIO {
		t.Errorf("the error is %v", err)
	}
}
