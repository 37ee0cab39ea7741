package claude

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// linterOf returns a linter of a graph, in which each record can be repaired.
func linterOf(g *graph) *linter {
	l := &linter{graph: g, parts: map[int]*lintPart{}, parents: map[int]string{}}
	for i := range g.nodes {
		l.parts[i] = &lintPart{}
	}
	return l
}

// slowMendChain is [linter.mendChain], which begins again after each repair and looks at all records.
func (l *linter) slowMendChain(v *loaded, head int) []int {
	isLeft := func(i int, in []bool) bool {
		n := &v.nodes[i]
		return n.kind.isMessage() && !n.isSidechain && !v.gone[i] && !in[i]
	}
	for {
		chain, _, lost := v.chain(head)
		in := make([]bool, len(v.nodes))
		for _, i := range chain {
			in[i] = true
		}
		if top := chain[len(chain)-1]; lost == none && v.nodes[top].parent == "" && !v.nodes[top].isBoundary && !v.nodes[top].isRestart {
			lost = top
		}
		if lost == none {
			return chain
		}
		left := in
		if v.nodes[lost].parent == "" {
			left = v.attached(chain)
		}
		loses := false
		for i := range lost {
			loses = loses || isLeft(i, left)
		}
		if !loses {
			return chain
		}
		best, own := none, &v.nodes[lost]
		for j := range v.nodes {
			n := &v.nodes[j]
			if !n.kind.inConversation() || n.uuid == "" || n.isSidechain || v.gone[j] || in[j] || j > lost && n.time >= own.time || own.time != noTime && n.time > own.time {
				continue
			}
			if best == none || n.time >= v.nodes[best].time {
				best = j
			}
		}
		if best == none {
			return chain
		}
		l.setParent(v, lost, best)
	}
}

// TestMendedChainOfAnyRecords compares the repair of a chain with one that looks at all records for each gap.
func TestMendedChainOfAnyRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]node, rapid.IntRange(1, 14).Draw(t, "records"))
		for i := range nodes {
			n := &nodes[i]
			if parent := rapid.IntRange(-4, len(nodes)+3).Draw(t, "parent"); parent >= 0 {
				n.parent = fmt.Sprint(parent)
			}
			n.time = rapid.SampledFrom([]int64{noTime, 0, 1000, 2000, 20_000, 40_000, 40_000, 60_000, 80_000}).Draw(t, "time")
			n.kind = rapid.SampledFrom([]kind{kindUser, kindAssistant, kindAttachment, kindSystem, kindOther}).Draw(t, "kind")
			n.isSidechain = rapid.IntRange(0, 6).Draw(t, "sidechain") == 0
			n.isRestart = rapid.IntRange(0, 9).Draw(t, "restart") == 0
			if n.kind == kindSystem && rapid.IntRange(0, 3).Draw(t, "boundary") == 0 {
				n.isBoundary, n.logical = true, fmt.Sprint(rapid.IntRange(0, len(nodes)).Draw(t, "logical"))
			}
		}
		head := rapid.IntRange(0, len(nodes)-1).Draw(t, "head")
		gone := make([]bool, len(nodes))
		for i := range gone {
			gone[i] = rapid.IntRange(0, 7).Draw(t, "gone") == 0
		}
		mend := func(mend func(*linter, *loaded, int) []int) ([]int, map[int]string) {
			g := graphOf(slices.Clone(nodes))
			v := g.load()
			copy(v.gone, gone)
			l := linterOf(g)
			return mend(l, v, head), l.parents
		}
		chain, parents := mend((*linter).mendChain)
		wantChain, wantParents := mend((*linter).slowMendChain)
		if !slices.Equal(chain, wantChain) || fmt.Sprint(parents) != fmt.Sprint(wantParents) {
			t.Errorf("the chain %v has the new parents %v; want %v and %v", chain, parents, wantChain, wantParents)
		}
	})
}

// TestMendManyGaps repairs chains in which each record has lost its parent, names none, or has lost its parent and has no time.
// There are so many records that the test would take very long with a slow algorithm.
func TestMendManyGaps(t *testing.T) {
	const records = 100_000
	for _, at := range []node{{parent: "missing", time: 60_000}, {time: 60_000}, {parent: "missing", time: noTime}} {
		nodes := make([]node, records)
		for i := range nodes {
			nodes[i] = node{parent: at.parent, kind: kindUser, time: at.time}
			if at.time != noTime {
				nodes[i].time *= int64(i)
			}
		}
		g := graphOf(nodes)
		l := linterOf(g)
		if chain := l.mendChain(g.load(), records-1); len(chain) != records || len(l.mend.Findings) != records-1 {
			t.Errorf("%+v: %d records are in the chain, with %d repairs", at, len(chain), len(l.mend.Findings))
		}
	}
}
