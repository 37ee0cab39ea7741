package storetest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// Historian is a saver whose older checkpoints can be listed and loaded.
type Historian interface {
	At(ctx context.Context, at saver.ThreadKey, id segno.CommitID) (saver.Snapshot, error)
	History(ctx context.Context, at saver.ThreadKey, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error]
}

// Traveller is a saver whose threads can go back and forward.
type Traveller interface {
	Undo(ctx context.Context, at saver.ThreadKey, n int) (saver.Snapshot, error)
	Redo(ctx context.Context, at saver.ThreadKey, n int) (saver.Snapshot, error)
	Restore(ctx context.Context, at saver.ThreadKey, to segno.CommitID) (saver.Snapshot, error)
}

// Forker is a saver that begins a thread at a checkpoint of another.
type Forker interface {
	Fork(ctx context.Context, from segno.CommitID, to saver.ThreadKey) (saver.Snapshot, error)
}

// ability is something a store or a saver may have, or that only its own test can
// do. Its text is what a verbose run says of those it lacks.
type ability string

const (
	onStore   ability = "segno.Store beneath"
	leaser    ability = "segno.Leaser"
	worker    ability = "segno.Workspaces"
	collector ability = "segno.Collector"
	eraser    ability = "segno.Eraser"
	watcher   ability = "segno.Watcher"
	historian ability = "storetest.Historian"
	traveller ability = "storetest.Traveller"
	forker    ability = "storetest.Forker"
	reopens   ability = "Options.Reopen"
	another   ability = "Options.Another"
	sizes     ability = "Options.Size"
	clocked   ability = "Options.Clock"
	raw       ability = "Options.Raw"
	fills     ability = "Options.Full"
)

// abilities finds out what the subject of a fixture can do.
func (f *fixture) abilities() map[ability]bool {
	is := map[ability]bool{onStore: f.store != nil, reopens: f.reopen != nil, another: f.another != nil,
		sizes: f.o.Size != nil, clocked: f.o.Clock != nil, raw: f.o.Raw != nil, fills: f.o.Full != nil}
	_, is[leaser] = f.store.(segno.Leaser)
	_, is[worker] = f.store.(segno.Workspaces)
	_, is[collector] = f.store.(segno.Collector)
	_, is[eraser] = f.store.(segno.Eraser)
	_, is[watcher] = f.store.(segno.Watcher)
	_, is[historian] = f.saver.(Historian)
	_, is[traveller] = f.saver.(Traveller)
	_, is[forker] = f.saver.(Forker)
	return is
}

// group is the clauses about one thing, for who can do what they want.
type group struct {
	name    string
	clauses []clause
	wants   []ability
}

// run asks each clause of a subject of its own; what the subject lacks the means
// for is told at the end of a verbose run, by name.
func run(t *testing.T, groups []group, open func(t *testing.T) *fixture) {
	first := open(t)
	is := first.abilities()
	first.close()
	lacking := map[ability][]string{}
	for _, g := range groups {
		lacks := slices.IndexFunc(g.wants, func(a ability) bool { return !is[a] })
		for _, c := range g.clauses {
			path := g.name + "/" + c.name
			if lacks >= 0 {
				lacking[g.wants[lacks]] = append(lacking[g.wants[lacks]], path)
				continue
			}
			t.Run(path, func(t *testing.T) { c.ask(open(t)) })
		}
	}
	if !testing.Verbose() {
		return
	}
	for _, a := range slices.Sorted(maps.Keys(lacking)) {
		t.Logf("not asked, for there is no %s: %s", a, strings.Join(lacking[a], ", "))
	}
}

// ask holds f's subject to c.
func (c clause) ask(f *fixture) {
	f.Cleanup(func() {
		if f.Failed() {
			f.Logf("the rule: %s", c.rule)
		}
	})
	f.Cleanup(f.close)
	c.test(f)
	f.sound()
}
