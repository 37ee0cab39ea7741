package workspace_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// TestCoverKeepsPathsSaved writes each kind of rule that an agent can write beside paths that a
// snapshot saved. With a strict cover, everything must be saved as if there were no rule, with
// and without an index. With another cover, everything must be saved only if the rule is as old
// as the cover.
func TestCoverKeepsPathsSaved(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	for name, rule := range map[string]struct{ path, content, held string }{
		"a cache":       {"src/CACHEDIR.TAG", cacheTag, "src"},
		"a manifest":    {"package.json", "{}", "node_modules"},
		"a directory":   {".segnoignore", "/src/\n", "src"},
		"a name":        {".segnoignore", "a\n", "src/a"},
		"a virtualenv":  {"venv/pyvenv.cfg", "x", "venv"},
		"a nested rule": {".segnoignore", "src/*\n!src/b\n", "src/a"},
		"a large file":  {".gitignore", "*.dat\n", "large.dat"},
		"a cache below": {"src/sub/CACHEDIR.TAG", cacheTag, "src/sub"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			git(t, p.root, "init", "-q")
			for _, path := range []string{"src/a", "src/b", "src/sub/c", "node_modules/x", "venv/lib"} {
				p.write(path, "good")
			}
			p.sparse("large.dat", largeSize)
			before := p.save()
			p.write(rule.path, rule.content)
			p.write("src/a", "bad, and longer")
			p.write("node_modules/x", "bad, and longer")
			must(t, os.Truncate(p.path("large.dat"), largeSize+1))

			bare := p.save()
			if e := p.entities(bare)[rule.held]; e.Type != segno.EntityProtected {
				t.Fatalf("without a cover %s is %+v", rule.held, e)
			}
			strict := segno.Coverage{Tree: before.Tree, Strict: true}
			p.dir.Cover(strict)
			after := p.save()
			if e := p.entities(after)[rule.held]; e.Type == segno.EntityProtected || !slices.Contains(after.Held, rule.held) {
				t.Errorf("with a cover %s is %+v; held %q", rule.held, e, after.Held)
			}
			none := p.other(workspace.Options{})
			none.Cover(strict)
			if full := p.saveBy(none); full.Tree != after.Tree || !slices.Equal(full.Held, after.Held) {
				t.Errorf("without an index: %v, held %q, want %q", p.diff(after, full), full.Held, after.Held)
			}
			if n, err := p.dir.Lost(t.Context(), after.Tree, bare.Tree); err != nil || n == 0 {
				t.Errorf("between the two %d files are lost (%v)", n, err)
			}

			p.dir.Cover(segno.Coverage{Tree: after.Tree})
			if again := p.save(); again.Tree != after.Tree || !slices.Equal(again.Held, after.Held) {
				t.Errorf("a rule of the tree's own: %v, held %q", p.diff(after, again), again.Held)
			}
			p.dir.Cover(segno.Coverage{Tree: before.Tree})
			if e := p.entities(p.save())[rule.held]; (e.Type == segno.EntityProtected) != (rule.held != "large.dat") {
				t.Errorf("by a tree that is older than the rule %s is %+v", rule.held, e)
			}

			p.dir.Cover(segno.Coverage{Tree: after.Tree, Strict: true}, strict)
			conflicts, err := p.dir.Apply(t.Context(), p.diff(p.save(), before), before.Times)
			must(t, err)
			if len(conflicts) > 0 || p.read("src/a") != "good" || p.read("node_modules/x") != "good" {
				t.Errorf("back: conflicts %q, %q and %q", conflicts, p.read("src/a"), p.read("node_modules/x"))
			}
			p.dir.Cover()
			if back := p.save(); back.Tree != before.Tree || len(back.Held) > 0 {
				t.Errorf("back: %v, held %q", p.diff(before, back), back.Held)
			}
		})
	}
}

// TestNewPathFollowsTheRulesOfTheCover makes a turn write a rule and new files.
func TestNewPathFollowsTheRulesOfTheCover(t *testing.T) {
	p := newFixture(t)
	p.write("src/a", "1")
	p.write(".segnoignore", "*.log\n")
	before := p.save()
	p.write(".segnoignore", "*\n")
	p.write("src/new", "1")
	p.write("src/new.log", "1")
	p.write("js/package.json", "{}")
	p.write("js/node_modules/x", "1")
	p.dir.Cover(segno.Coverage{Tree: before.Tree, Strict: true})
	all := p.entities(p.save())
	for path, want := range map[string]segno.EntityType{
		"src/a": segno.EntityFile, "src/new": segno.EntityFile, "js/package.json": segno.EntityFile,
		"src/new.log": segno.EntityProtected, "js/node_modules": segno.EntityProtected,
	} {
		if all[path].Type != want {
			t.Errorf("%s is %+v, want %s", path, all[path], want)
		}
	}
}

// TestForkOfHeldPathsIsExact forks a tree that is saved although a rule protects it.
func TestForkOfHeldPathsIsExact(t *testing.T) {
	p := newFixture(t)
	p.write("src/a", "good")
	before := p.save()
	p.write("src/CACHEDIR.TAG", cacheTag)
	p.write("src/a", "then")
	p.dir.Cover(segno.Coverage{Tree: before.Tree, Strict: true})
	then := p.save()
	p.write("src/a", "now, and longer")
	to := p.root + "-fork"
	_, err := p.dir.Fork(t.Context(), then, to)
	must(t, err)
	if data, err := os.ReadFile(to + "/src/a"); err != nil || string(data) != "then" {
		t.Errorf("the fork has %q (%v)", data, err)
	}
}

// TestUnprotectedPathIsNotDeleted reverts a turn that removed a rule.
func TestUnprotectedPathIsNotDeleted(t *testing.T) {
	p := newFixture(t)
	p.write(".segnoignore", "data/\n")
	p.write("data/mine", "precious")
	before := p.save()
	must(t, os.Remove(p.path(".segnoignore")))
	if conflicts := p.restore(before); p.read("data/mine") != "precious" {
		t.Errorf("it is gone; conflicts %q", conflicts)
	}
}

// TestHeldListIsBounded uses a rule that matches many files.
func TestHeldListIsBounded(t *testing.T) {
	p := newFixture(t)
	for i := range 2 * segno.MaxHeld {
		p.write(fmt.Sprintf("f%d", i), "1")
	}
	before := p.save()
	p.write(".segnoignore", "f*\n")
	p.dir.Cover(segno.Coverage{Tree: before.Tree, Strict: true})
	after := p.save()
	if len(after.Held) != segno.MaxHeld || after.Files != 2*segno.MaxHeld+1 {
		t.Errorf("%d are listed of %d that are saved", len(after.Held), after.Files)
	}
}
