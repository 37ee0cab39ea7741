package storetest

import (
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

// group is a list of tests and the abilities that all of them need.
type group struct {
	name  string
	tests []test
	needs []ability
}

// ability is an optional interface, or an option of the test.
type ability string

const (
	isOnStore    ability = "segno.Store below the saver"
	isLeaser     ability = "segno.Leaser"
	isWorkspaces ability = "segno.Workspaces"
	isCollector  ability = "segno.Collector"
	isEraser     ability = "segno.Eraser"
	isWatcher    ability = "segno.Watcher"
	isTraveler   ability = "storetest.Traveler"
	canReopen    ability = "Options.Reopen"
	canOpenTwice ability = "Options.Another"
	canFillDisk  ability = "Options.Full"
	hasSize      ability = "Options.Size"
	hasClock     ability = "Options.Clock"
	hasRaw       ability = "Options.Raw"
)

// abilities returns the abilities of the store or saver under test.
func (f *fixture) abilities() map[ability]bool {
	has := map[ability]bool{isOnStore: f.store != nil, canReopen: f.reopen != nil, canOpenTwice: f.another != nil,
		canFillDisk: f.o.Full != nil, hasSize: f.o.Size != nil, hasClock: f.o.Clock != nil, hasRaw: f.o.Raw != nil}
	_, has[isLeaser] = f.store.(segno.Leaser)
	_, has[isWorkspaces] = f.store.(segno.Workspaces)
	_, has[isCollector] = f.store.(segno.Collector)
	_, has[isEraser] = f.store.(segno.Eraser)
	_, has[isWatcher] = f.store.(segno.Watcher)
	_, has[isTraveler] = f.saver.(Traveler)
	return has
}

// run runs each test with a new fixture.
func run(t *testing.T, groups []group, open func(t *testing.T) *fixture) {
	first := open(t)
	has := first.abilities()
	first.close()
	var notRun []string
	for _, g := range groups {
		missing := ""
		for _, a := range g.needs {
			if !has[a] {
				missing = string(a)
			}
		}
		for _, x := range g.tests {
			if missing != "" {
				notRun = append(notRun, g.name+"/"+x.name+" (no "+missing+")")
				continue
			}
			t.Run(g.name+"/"+x.name, func(t *testing.T) {
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
		t.Logf("not run: %s", strings.Join(notRun, ", "))
	}
}
