package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// test is one rule of the contract.
type test struct {
	name string
	rule string // logged if the test fails
	run  func(f *fixture)
}

// group is a list of tests and the optional interfaces and options that all of them need.
type group struct {
	name  string
	tests []test
	needs []func(f *fixture) bool
}

type needs = []func(f *fixture) bool

func isOnStore(f *fixture) bool    { return f.store != nil }
func canReopen(f *fixture) bool    { return f.reopen != nil }
func canOpenTwice(f *fixture) bool { return f.another != nil }
func canFillDisk(f *fixture) bool  { return f.o.Full != nil }
func hasSize(f *fixture) bool      { return f.o.Size != nil }
func hasClock(f *fixture) bool     { return f.o.Clock != nil }
func hasRaw(f *fixture) bool       { return f.o.Raw != nil }
func isLeaser(f *fixture) bool     { return implements[segno.Leaser](f.store) }
func isRenamer(f *fixture) bool    { return implements[segno.Renamer](f.store) }
func isWorkspaces(f *fixture) bool { return implements[segno.Workspaces](f.store) }
func isCollector(f *fixture) bool  { return implements[segno.Collector](f.store) }
func isEraser(f *fixture) bool     { return implements[segno.Eraser](f.store) }
func isWatcher(f *fixture) bool    { return implements[segno.Watcher](f.store) }
func isTraveler(f *fixture) bool   { return implements[Traveler](f.saver) }

func implements[T any](x any) bool { _, ok := x.(T); return ok }

// run runs each test with a new fixture.
func run(t *testing.T, groups []group, open func(t *testing.T) *fixture) {
	first := open(t)
	defer first.close()
	var notRun []string
	for _, g := range groups {
		lacks := slices.ContainsFunc(g.needs, func(has func(f *fixture) bool) bool { return !has(first) })
		for _, x := range g.tests {
			name := g.name + "/" + x.name
			if lacks {
				notRun = append(notRun, name)
				continue
			}
			t.Run(name, func(t *testing.T) {
				f := open(t)
				f.hideWatcher = g.name == "wait"
				f.Cleanup(func() {
					if f.Failed() {
						f.Logf("the rule: %s", x.rule)
					}
				})
				f.Cleanup(f.close)
				x.run(f)
				f.check()
			})
		}
	}
	if testing.Verbose() && len(notRun) > 0 {
		t.Logf("not run, because an interface or an option is missing: %s", strings.Join(notRun, ", "))
	}
}
