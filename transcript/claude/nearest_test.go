package claude

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// graphOf returns a graph of nodes with these parents and times.
func graphOf(nodes []node) *graph {
	g := newGraph("")
	g.isWhole = true
	for i := range nodes {
		nodes[i].uuid = fmt.Sprint(i)
		g.byUUID[nodes[i].uuid] = i
	}
	g.nodes = nodes
	return g
}

// slowChain is [loaded.chain] with a search that looks at all records.
func slowChain(v *loaded, head int) (chain, gaps []int, lost int) {
	for i := head; i != none; {
		chain = append(chain, i)
		next := v.parent[i]
		if next == none && v.nodes[i].parent == "" {
			break
		}
		if next == none || slices.Contains(chain, next) {
			gaps = append(gaps, i)
			next = none
			least, own := int64(maxGap)+1, v.nodes[i]
			for j, n := range v.nodes {
				d := own.time - n.time
				if !slices.Contains(chain, j) && !v.gone[j] && n.time != noTime && own.time != noTime && n.isSidechain == own.isSidechain && d >= 0 && d < least {
					next, least = j, d
				}
			}
			if next == none {
				return chain, gaps, i
			}
		}
		i = next
	}
	return chain, gaps, none
}

// TestChainOfAnyRecords compares the chain, and the nearest message above each record, with those that a search of all
// records finds.
func TestChainOfAnyRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]node, rapid.IntRange(1, 12).Draw(t, "records"))
		for i := range nodes {
			n := &nodes[i]
			if parent := rapid.IntRange(-1, len(nodes)+2).Draw(t, "parent"); parent >= 0 {
				n.parent = fmt.Sprint(parent)
			}
			n.time = rapid.SampledFrom([]int64{noTime, 0, 1000, 1000, 2000, 5000, 6000, 6001, 20000}).Draw(t, "time")
			n.isSidechain = rapid.IntRange(0, 4).Draw(t, "sidechain") == 0
			n.kind = rapid.SampledFrom([]kind{kindUser, kindAttachment, kindSystem}).Draw(t, "kind")
		}
		v := graphOf(nodes).load()
		for i := range nodes {
			v.gone[i] = rapid.IntRange(0, 5).Draw(t, "gone") == 0
		}
		messages := v.messages()
		for i := range nodes {
			chain, gaps, lost := v.chain(i)
			wantChain, wantGaps, wantLost := slowChain(v, i)
			if !slices.Equal(chain, wantChain) || !slices.Equal(gaps, wantGaps) || lost != wantLost {
				t.Errorf("from %d: %v, %v, %d; want %v, %v, %d", i, chain, gaps, lost, wantChain, wantGaps, wantLost)
			}
			if got, want := messages[i], v.message(i); got != want {
				t.Errorf("the message above %d is %d, want %d", i, got, want)
			}
		}
	})
}

// TestManyGaps loads graphs in which the parent of each record is missing, or each leaf is far below its message. There are so
// many records that the test would take very long with a slow algorithm.
func TestManyGaps(t *testing.T) {
	const records = 200_000
	var gaps, deep []node
	for i := range records {
		gaps = append(gaps, node{parent: "missing", kind: kindUser, time: int64(i)})
		n := node{parent: fmt.Sprint(min(i-1, records/2)), kind: kindSystem, time: noTime}
		if i == 0 {
			n.parent = ""
		}
		deep = append(deep, n)
	}
	g := graphOf(gaps)
	g.newest = records - 1
	v := g.load()
	chain, missing, lost := v.chain(v.head())
	if len(chain) != records || len(missing) != records || lost != 0 {
		t.Errorf("the chain has %d records and %d gaps, and ends at %d", len(chain), len(missing), lost)
	}
	if got := len(g.ancestry(records - 1)); got != records {
		t.Errorf("the ancestry has %d records", got)
	}
	if got := graphOf(deep).load().head(); got != none {
		t.Errorf("without messages the head is %d", got)
	}
}
