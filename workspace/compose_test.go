package workspace_test

import (
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
)

// compose composes a snapshot of two snapshots and keeps its objects.
func (p *fixture) compose(onto, base segno.Snapshot, paths []string) segno.Snapshot {
	p.t.Helper()
	b := p.store.Batch()
	defer b.Close()
	s, err := p.dir.Compose(ctx(p.t), b, onto, base, paths)
	must(p.t, err)
	_, err = b.Stage(ctx(p.t))
	must(p.t, err)
	return s
}

// TestComposeTakesPathsFromAnotherSnapshot chooses some of the paths at which two trees differ and
// compares the result with both.
func TestComposeTakesPathsFromAnotherSnapshot(t *testing.T) {
	names := []string{"a", "b", "d/a", "d/b", "d/e/a", "e/a", "e/b"}
	rapid.Check(t, func(rt *rapid.T) {
		p := newFixture(t)
		state := func(label string) segno.Snapshot {
			for _, name := range names {
				switch content := rapid.SampledFrom([]string{"", "1", "22"}).Draw(rt, label+name); content {
				case "":
					must(t, os.RemoveAll(p.path(name)))
				default:
					p.write(name, content)
				}
			}
			for _, dir := range []string{"d/e", "d", "e"} {
				_ = os.Remove(p.path(dir)) // fails if it is not empty
			}
			return p.save()
		}
		base, onto := state("base "), state("onto ")
		changes := p.diff(base, onto)
		var all, files []string
		for _, c := range changes {
			all = append(all, c.Path)
			if c.From.Type != segno.EntityDir && c.To.Type != segno.EntityDir {
				files = append(files, c.Path)
			}
		}
		none := p.compose(onto, base, nil)
		whole := p.compose(onto, base, all)
		if none.Tree != onto.Tree || none.Times != onto.Times {
			t.Errorf("nothing taken gives %v, want %v", none, onto)
		}
		if whole.Tree != base.Tree || whole.Files != base.Files || whole.Bytes != base.Bytes {
			t.Errorf("everything taken gives %+v, want %+v", whole, base)
		}
		var some []string
		for _, f := range files {
			if rapid.Bool().Draw(rt, "take "+f) {
				some = append(some, f)
			}
		}
		took := map[string]bool{}
		for _, f := range some {
			took[f] = true
		}
		for _, c := range changes { // a directory also needs its entries
			below := slices.ContainsFunc(files, func(f string) bool { return len(f) > len(c.Path) && f[:len(c.Path)+1] == c.Path+"/" && took[f] })
			stays := slices.ContainsFunc(files, func(f string) bool { return len(f) > len(c.Path) && f[:len(c.Path)+1] == c.Path+"/" && !took[f] })
			if c.From.Type == segno.EntityDir && below || c.To.Type == segno.EntityDir && below && !stays {
				some = append(some, c.Path)
			}
		}
		mixed := p.compose(onto, base, some)
		got := map[string]bool{}
		for _, c := range p.diff(onto, mixed) {
			if c.From.Type != segno.EntityDir && c.To.Type != segno.EntityDir {
				got[c.Path] = true
			}
		}
		if diff := cmp.Diff(took, got); diff != "" {
			t.Errorf("taken are other paths than named (-want +got):\n%s", diff)
		}
	})
}

// TestWithChanges applies some of the changes between two trees. The result must have these and no
// others. All changes together must result in the other tree.
func TestWithChanges(t *testing.T) {
	names := []string{"a", "b", "d/a", "d/b", "d/e/a", "e/a", "e/b"}
	rapid.Check(t, func(rt *rapid.T) {
		p := newFixture(t)
		state := func(label string) segno.Snapshot {
			for _, name := range names {
				must(t, os.RemoveAll(p.path(name)))
				if content := rapid.SampledFrom([]string{"", "1", "22"}).Draw(rt, label+name); content != "" {
					p.write(name, content)
				}
			}
			for _, dir := range []string{"d/e", "d", "e"} {
				if err := os.Remove(p.path(dir)); err == nil && rapid.Bool().Draw(rt, label+"keep "+dir) {
					must(t, os.MkdirAll(p.path(dir), 0o755))
				}
			}
			return p.save()
		}
		base, onto := state("base "), state("onto ")
		with := func(changes []segno.Change) segno.Snapshot {
			b := p.store.Batch()
			defer b.Close()
			s, err := p.dir.WithChanges(ctx(t), b, onto, base, changes)
			must(t, err)
			_, err = b.Stage(ctx(t))
			must(t, err)
			return s
		}
		all := p.diff(onto, base)
		if whole := with(all); whole.Tree != base.Tree || whole.Files != base.Files || whole.Bytes != base.Bytes {
			t.Errorf("all changes give %+v, want %+v", whole, base)
		}
		var some []segno.Change
		for _, c := range all {
			if c.From.Type != segno.EntityDir && c.To.Type != segno.EntityDir && rapid.Bool().Draw(rt, "make "+c.Path) {
				some = append(some, c)
			}
		}
		made := p.diff(onto, with(some))
		for _, c := range some {
			// A change below a directory that does not exist has no effect.
			parent := slices.ContainsFunc(all, func(d segno.Change) bool { return d.Path == path.Dir(c.Path) && d.From.Type != segno.EntityDir })
			if slices.Contains(made, c) == parent {
				t.Errorf("%s: made %v, and its directory is missing: %v", c.Path, !parent, parent)
			}
		}
		for _, c := range made {
			if !slices.Contains(some, c) {
				t.Errorf("%s was changed, too: %+v", c.Path, c)
			}
		}
	})
}

// TestTouchedIsWhenAPathChangedLast expects the ctime of a path, or of the nearest directory if the
// path is missing. Touched must not follow symlinks.
func TestTouchedIsWhenAPathChangedLast(t *testing.T) {
	p := newFixture(t)
	p.write("d/a", "1")
	p.write("d/gone/b", "1")
	must(t, os.Symlink("/", p.path("link")))
	must(t, os.Chtimes(p.path("d/a"), time.Unix(1, 0), time.Unix(1, 0)))
	must(t, os.RemoveAll(p.path("d/gone")))
	got, err := p.dir.Touched(ctx(t), []string{"d/a", "d/gone/b", "d/gone", "link", "link/etc", "none"})
	must(t, err)
	for i, at := range got {
		if age := time.Since(at); at.IsZero() || age < -time.Second || age > time.Minute {
			t.Errorf("path %d was touched at %v", i, at)
		}
	}
	if got[1] != got[2] || got[4] != got[3] {
		t.Errorf("the times are %v", got)
	}
}
