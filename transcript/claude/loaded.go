package claude

import (
	"iter"
	"slices"
)

// maxGap is how far back in time, in milliseconds, the agent looks for a
// record to use instead of a missing parent.
const maxGap = 5000

// loaded is a graph as the agent has it after loading a transcript: the records that the
// newest compaction dropped are gone, and those that it preserved follow its summary.
type loaded struct {
	*graph
	parent        []int // of each node, or none
	gone          []bool
	lastPreserved int // the last record a compaction preserved, or none
}

// load applies the newest compaction to g, as the agent does when it loads a
// transcript.
func (g *graph) load() *loaded {
	v := &loaded{graph: g, parent: make([]int, len(g.nodes)), gone: make([]bool, len(g.nodes)), lastPreserved: none}
	boundary, preserving := none, none
	for i := range g.nodes {
		n := &g.nodes[i]
		v.parent[i] = g.index(n.parent)
		if n.isBoundary {
			boundary = i
			if n.preserved != nil {
				preserving = i
			}
		}
	}
	if preserving == none {
		return v
	}
	var keep []int
	if preserving == boundary {
		var ok bool
		if keep, ok = v.preservedNodes(g.nodes[boundary].preserved); !ok {
			return v
		}
	}
	v.moveBehindAnchor(keep, g.nodes[boundary].preserved)
	v.dropBefore(boundary, keep)
	return v
}

// preservedNodes returns the records that p names, oldest first, or false if one is
// missing.
func (v *loaded) preservedNodes(p *preserved) (out []int, ok bool) {
	for _, uuid := range p.uuids {
		i := v.index(uuid)
		if i == none {
			return nil, false
		}
		out = append(out, i)
	}
	if p.tail == "" {
		return out, true
	}
	out = nil
	for i := range v.ancestors(v.index(p.tail)) {
		out = append(out, i)
		if v.nodes[i].uuid == p.head {
			slices.Reverse(out)
			return out, true
		}
	}
	return nil, false
}

// moveBehindAnchor makes the preserved records the chain behind their anchor, and moves
// the anchor's other children behind that chain.
func (v *loaded) moveBehindAnchor(keep []int, p *preserved) {
	if len(keep) == 0 {
		return
	}
	anchor := v.index(p.anchor)
	above := anchor
	for _, k := range keep {
		v.parent[k], above = above, k
	}
	v.lastPreserved = above
	for i := range v.nodes {
		if anchor != none && v.parent[i] == anchor && i != keep[0] {
			v.parent[i] = v.lastPreserved
		}
	}
}

// dropBefore removes the records before the boundary that are not in keep.
func (v *loaded) dropBefore(boundary int, keep []int) {
	for i := range boundary {
		v.gone[i] = true
	}
	for _, k := range keep {
		v.gone[k] = false
	}
	for i, p := range v.parent {
		if p == none || !v.gone[p] {
			continue
		}
		v.parent[i] = none
		if v.lastPreserved != none && v.nodes[i].kind.isMessage() {
			v.parent[i] = v.lastPreserved
		}
	}
}

// ancestors yields i and the records above it, up to a root. It stops after len(v.nodes)+1
// records, so that a cycle in a damaged file ends. It yields nothing for none.
func (v *loaded) ancestors(i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at, steps := i, 0; at != none && steps <= len(v.nodes); at, steps = v.parent[at], steps+1 {
			if !yield(at) {
				return
			}
		}
	}
}

// head returns the record from which the agent would continue, which is always a message,
// or none for an empty conversation.
func (v *loaded) head() int {
	p := v.pointer
	if p.isEmpty {
		return none
	}
	to, newest := v.notGone(v.index(p.uuid)), v.notGone(v.newest)
	explicit := p.isExplicit && to != none && !v.nodes[to].isSidechain
	if v.lastPreserved == none || explicit {
		start := to
		if to != none && !p.isExplicit && slices.Contains(slices.Collect(v.ancestors(newest)), to) {
			start = newest
		}
		if v.lastPreserved == none && start == none {
			start = newest
		}
		if at := v.message(start); at != none {
			return at
		}
	}
	return v.newestLeaf(to, newest)
}

// notGone returns i, or none if the record is gone.
func (v *loaded) notGone(i int) int {
	if i != none && v.gone[i] {
		return none
	}
	return i
}

// newestLeaf is the rule by which the agent finds the head if its first rule fails: the only
// leaf, or the one that the pointer names, or the newest.
func (v *loaded) newestLeaf(to, newest int) int {
	leaves := v.leaves()
	switch {
	case len(leaves) > 1 && to != none && leaves[to]:
		return v.message(to)
	case len(leaves) > 1 && newest != none:
		if at := v.message(newest); at != none {
			return at
		}
	}
	best := none
	for i := range v.nodes {
		n := &v.nodes[i]
		if v.gone[i] || n.isSidechain || n.time == noTime || len(leaves) > 0 && !leaves[i] {
			continue
		}
		if best == none || n.time > v.nodes[best].time {
			best = i
		}
	}
	return v.message(best)
}

// leaves returns the messages that have no message directly below them and are the nearest
// message at or above a record without children.
func (v *loaded) leaves() map[int]bool {
	hasChild := make([]bool, len(v.nodes))
	hasMessage := make([]bool, len(v.nodes))
	for i, p := range v.parent {
		if p != none && !v.gone[i] {
			hasChild[p] = true
			hasMessage[p] = hasMessage[p] || v.nodes[i].kind.isMessage()
		}
	}
	out := map[int]bool{}
	messages := v.messages()
	for i := range v.nodes {
		if v.gone[i] || hasChild[i] {
			continue
		}
		if at := messages[i]; at != none && !hasMessage[at] {
			out[at] = true
		}
	}
	return out
}

// messages returns the nearest message at or above each record, or none. It visits each record twice, because only the second
// visit sees what is behind the place where a path closes a cycle.
func (v *loaded) messages() []int {
	out := slices.Repeat([]int{none}, len(v.nodes))
	for range 2 {
		seen := make([]bool, len(v.nodes))
		for i := range v.nodes {
			visitPath(i, v.parent, seen, func(i, _ int) {
				if v.nodes[i].kind.isMessage() {
					out[i] = i
				} else if above := v.parent[i]; above != none {
					out[i] = out[above]
				}
			})
		}
	}
	return out
}

// message returns the nearest message at or above i, or none.
func (v *loaded) message(i int) int {
	for at := range v.ancestors(i) {
		if v.nodes[at].kind.isMessage() {
			return at
		}
	}
	return none
}

// continuesFrom returns the head if it is the message at or above leaf, else none.
func (v *loaded) continuesFrom(leaf int) int {
	if head := v.head(); head == v.message(leaf) {
		return head
	}
	return none
}

// chain walks from head to the root as the agent does. If a parent is missing, it continues
// with the nearest earlier record within [maxGap]. gaps are the records with a missing parent.
// lost is the first gap without a nearest earlier record, or none.
func (v *loaded) chain(head int) (chain, gaps []int, lost int) {
	w := v.newWalk()
	lost = w.from(head)
	return w.chain, w.gaps, lost
}

// walk is the walk of [loaded.chain].
type walk struct {
	v           *loaded
	seen        []bool // the records in chain
	chain, gaps []int
	search      *nearest // nil until there is a gap
}

func (v *loaded) newWalk() *walk { return &walk{v: v, seen: make([]bool, len(v.nodes))} }

// from continues the walk at a record that it has not visited. It returns the gap at which it ends, or none.
func (w *walk) from(i int) (lost int) {
	v := w.v
	for i != none {
		w.seen[i] = true
		w.chain = append(w.chain, i)
		if w.search != nil {
			w.search.exclude(i)
		}
		next := v.parent[i]
		if next == none && v.nodes[i].parent == "" {
			break
		}
		if next == none || w.seen[next] {
			w.gaps = append(w.gaps, i)
			if next = w.nearest(i); next == none {
				return i
			}
		}
		i = next
	}
	return none
}

// nearest returns the record that the agent uses instead of the missing parent of record i, or none.
func (w *walk) nearest(i int) int {
	if w.search == nil {
		w.search = w.v.nearest()
		for _, i := range w.chain {
			w.search.exclude(i)
		}
	}
	return w.search.before(i)
}
