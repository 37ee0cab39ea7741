package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/workspace"
)

// TestSnapshotAtIsExact restores random states. Each time it compares SnapshotAt of the changed
// paths with a snapshot without an index. The result must be comparable before the commit.
func TestSnapshotAtIsExact(t *testing.T) {
	soak.Rapid(t, 50, 2000)
	rapid.Check(t, func(r *rapid.T) {
		p := newFixture(t)
		var saved []segno.Snapshot
		for range 3 {
			for range rapid.IntRange(0, 12).Draw(r, "edits") {
				edit(r, p.root)
			}
			saved = append(saved, p.save())
		}
		for range 5 {
			to := saved[rapid.IntRange(0, len(saved)-1).Draw(r, "back to")]
			for range rapid.IntRange(0, 2).Draw(r, "edits between") {
				edit(r, p.root)
			}
			steps := p.diff(p.save(), to)
			if _, err := p.dir.Apply(ctx(t), steps, to.Times); err != nil {
				r.Fatalf("restore: %v\nsteps %v", err, steps)
			}
			b := p.store.Batch()
			got, err := p.dir.SnapshotAt(ctx(t), b, paths(steps))
			must(t, err)
			if _, err := p.dir.Diff(ctx(t), to.Tree, got.Tree); err != nil {
				r.Fatalf("compare before the commit: %v", err)
			}
			_, err = b.Stage(ctx(t))
			must(t, err)
			b.Close()
			if full := p.saveBy(p.other(workspace.Options{})); !cmp.Equal(full, got) {
				r.Fatalf("a look at the steps differs from one at everything: %s\n%v\nsteps %v", cmp.Diff(full, got), p.diff(full, got), steps)
			}
		}
		removeAll(t, filepath.Dir(p.root))
	})
}

func paths(steps []segno.Change) (out []string) {
	for _, s := range steps {
		out = append(out, s.Path)
	}
	return out
}

// TestSnapshotAtLeavesTheRest edits a file before a SnapshotAt of another path. The next full
// snapshot must contain the edit, with the same Dir or another one.
func TestSnapshotAtLeavesTheRest(t *testing.T) {
	p := newFixture(t)
	p.write("here/file", "one")
	p.write("there/file", "one")
	p.write("there/deep/file", "one")
	before := p.save()
	p.write("here/file", "two")
	p.write("there/file", "two")
	p.write("there/deep/added", "two")
	part := p.saveAt("here/file")
	if got, want := paths(p.diff(before, part)), []string{"here/file"}; !cmp.Equal(got, want) {
		t.Errorf("a look at one directory saw %q, want %q", got, want)
	}
	stranger := p.saveBy(p.other(workspace.Options{Index: p.index}))
	if got, want := paths(p.diff(part, p.save())), []string{"there/deep/added", "there/file"}; !cmp.Equal(got, want) {
		t.Errorf("the next look saw %q, want %q", got, want)
	}
	if own := p.save(); own.Tree != stranger.Tree {
		t.Errorf("another process saw something else: %v", p.diff(own, stranger))
	}
}

// TestSnapshotAtWithoutIndex requests a scan of one path without an index of the others.
// SnapshotAt must scan everything.
func TestSnapshotAtWithoutIndex(t *testing.T) {
	for name, forget := range map[string]func(p *fixture){
		"new dir":        func(p *fixture) { p.open(workspace.Options{Index: p.index}) },
		"no index":       func(p *fixture) { p.open(workspace.Options{}) },
		"index removed":  func(p *fixture) { must(p.t, os.Remove(p.index)) },
		"index torn":     func(p *fixture) { must(p.t, os.WriteFile(p.index, []byte("segno"), 0o600)) },
		"index replaced": func(p *fixture) { p.saveBy(p.other(workspace.Options{Index: p.index})) },
		"rules changed":  func(p *fixture) { p.write(".segnoignore", "nothing\n") },
		"objects lost":   func(p *fixture) { clear(p.store.objects) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			p.write("here/file", "one")
			p.write("there/file", "one")
			p.save()
			p.write("there/file", "two")
			p.write("there/added", "two")
			forget(p)
			if got, full := p.saveAt("here/file"), p.saveBy(p.other(workspace.Options{})); !cmp.Equal(full, got) {
				t.Errorf("it missed something: %s", cmp.Diff(full, got))
			}
		})
	}
}

// TestSnapshotAtOfLinks separates and joins names of one file, but scans only one of them.
func TestSnapshotAtOfLinks(t *testing.T) {
	for _, names := range [][2]string{{"a/x", "b/x"}, {"b/x", "a/x"}} {
		looked, other := names[0], names[1]
		p := newFixture(t)
		p.write(other, "one")
		p.write(looked, "one")
		p.save()
		for _, change := range []func(){
			func() {
				must(t, os.Remove(p.path(looked)))
				must(t, os.Link(p.path(other), p.path(looked)))
			},
			func() {
				must(t, os.Remove(p.path(looked)))
				p.write(looked, "two")
			},
		} {
			change()
			got := p.saveAt(looked)
			if full := p.saveBy(p.other(workspace.Options{})); !cmp.Equal(full, got) {
				t.Errorf("a look at %s: %s", looked, cmp.Diff(full, got))
			}
		}
	}
}
