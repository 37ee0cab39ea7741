package transcript

// fallback is how far back in time, in milliseconds, the agent looks for a
// record in place of a parent that is missing.
const fallback = 5000

// view is a graph as the agent sees it after loading: what a compaction dropped
// is gone, and what it preserved hangs behind its summary.
type view struct {
	*graph
	up   []int // the parent of each node, or none
	gone []bool
	kept int // the last record a compaction preserved, or none
}

// view applies the newest compaction to g, as the agent does when it loads a
// transcript.
func (g *graph) view() *view {
	v := &view{graph: g, up: make([]int, len(g.nodes)), gone: make([]bool, len(g.nodes)), kept: none}
	boundary, preserving := none, none
	for i := range g.nodes {
		n := &g.nodes[i]
		v.up[i] = g.at(n.parent)
		if n.boundary {
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
		if keep, ok = v.preserved(g.nodes[boundary].preserved); !ok {
			return v
		}
	}
	v.splice(keep, g.nodes[boundary].preserved)
	v.drop(boundary, keep)
	return v
}

// preserved returns the records p names, oldest first, or false if one is
// missing.
func (v *view) preserved(p *preserved) ([]int, bool) {
	var out []int
	for _, uuid := range p.uuids {
		i := v.at(uuid)
		if i == none {
			return nil, false
		}
		out = append(out, i)
	}
	if p.tail == "" {
		return out, true
	}
	seen := map[int]bool{}
	for i := v.at(p.tail); i != none && !seen[i]; i = v.up[i] {
		seen[i] = true
		out = append([]int{i}, out...)
		if v.nodes[i].uuid == p.head {
			return out, true
		}
	}
	return nil, false
}

// splice hangs the preserved records behind their anchor, and what hung from the
// anchor behind them.
func (v *view) splice(keep []int, p *preserved) {
	if len(keep) == 0 {
		return
	}
	anchor := v.at(p.anchor)
	for i, k := range keep {
		v.up[k] = anchor
		if i > 0 {
			v.up[k] = keep[i-1]
		}
	}
	v.kept = keep[len(keep)-1]
	for i := range v.nodes {
		if anchor != none && v.up[i] == anchor && i != keep[0] {
			v.up[i] = v.kept
		}
	}
}

// drop removes what stands before the boundary and is not preserved.
func (v *view) drop(boundary int, keep []int) {
	for i := range boundary {
		v.gone[i] = true
	}
	for _, k := range keep {
		v.gone[k] = false
	}
	for i, p := range v.up {
		if p == none || !v.gone[p] {
			continue
		}
		v.up[i] = none
		if v.kept != none && v.nodes[i].kind.speaks() {
			v.up[i] = v.kept
		}
	}
}

// head returns the record the agent would continue from, always one that speaks;
// none for an empty conversation.
func (v *view) head() int {
	p := v.pointer
	if p.cleared {
		return none
	}
	to := v.here(p.uuid)
	newest := v.newest
	if newest != none && v.gone[newest] {
		newest = none
	}
	explicit := p.explicit && to != none && !v.nodes[to].sidechain
	if v.kept == none || explicit {
		start := to
		if to != none && !p.explicit && newest != none && v.descends(newest, to) {
			start = newest
		}
		if v.kept == none && start == none {
			start = newest
		}
		if at := v.speaker(start); at != none {
			return at
		}
	}
	return v.leaf(to, newest)
}

// leaf is the agent's second way to the head: the only leaf, or the one that is
// pointed at, or the newest.
func (v *view) leaf(to, newest int) int {
	leaves := v.leaves()
	switch {
	case len(leaves) > 1 && to != none && leaves[to]:
		return v.speaker(to)
	case len(leaves) > 1 && newest != none:
		if at := v.speaker(newest); at != none {
			return at
		}
	}
	best := none
	for i := range v.nodes {
		n := &v.nodes[i]
		if v.gone[i] || n.sidechain || n.time == noTime || len(leaves) > 0 && !leaves[i] {
			continue
		}
		if best == none || n.time > v.nodes[best].time {
			best = i
		}
	}
	return v.speaker(best)
}

// leaves returns the speaking records that no speaking record hangs from, among
// those at or above a record nothing hangs from.
func (v *view) leaves() map[int]bool {
	parent := make([]bool, len(v.nodes))
	answered := make([]bool, len(v.nodes))
	for i, p := range v.up {
		if p != none && !v.gone[i] {
			parent[p] = true
			answered[p] = answered[p] || v.nodes[i].kind.speaks()
		}
	}
	out := map[int]bool{}
	for i := range v.nodes {
		if v.gone[i] || parent[i] {
			continue
		}
		if at := v.speaker(i); at != none && !answered[at] {
			out[at] = true
		}
	}
	return out
}

// here returns the node with a uuid if it is still there.
func (v *view) here(uuid string) int {
	if i := v.at(uuid); i != none && !v.gone[i] {
		return i
	}
	return none
}

// speaker returns the nearest speaking record at or above i, or none.
func (v *view) speaker(i int) int {
	for steps := 0; i != none && steps <= len(v.nodes); steps++ {
		if v.nodes[i].kind.speaks() {
			return i
		}
		i = v.up[i]
	}
	return none
}

// descends reports whether i is to or hangs from it.
func (v *view) descends(i, to int) bool {
	for steps := 0; i != none && steps <= len(v.nodes); steps++ {
		if i == to {
			return true
		}
		i = v.up[i]
	}
	return false
}

// chain walks from head to the root as the agent does. For a parent that is
// missing it takes the nearest earlier record within [fallback]; gaps are the
// records whose parent is missing, and lost the first of them without any.
func (v *view) chain(head int) (chain, gaps []int, lost int) {
	seen := make([]bool, len(v.nodes))
	for i := head; i != none; {
		seen[i] = true
		chain = append(chain, i)
		next := v.up[i]
		if next == none && v.nodes[i].parent == "" {
			break
		}
		if next == none || seen[next] {
			gaps = append(gaps, i)
			if next = v.nearest(i, seen); next == none {
				return chain, gaps, i
			}
		}
		i = next
	}
	return chain, gaps, none
}

// nearest returns the record written last before i that is not in seen.
func (v *view) nearest(i int, seen []bool) int {
	best, least := none, int64(fallback)+1
	own := &v.nodes[i]
	if own.time == noTime {
		return none
	}
	for j := range v.nodes {
		n := &v.nodes[j]
		if seen[j] || v.gone[j] || n.time == noTime || n.sidechain != own.sidechain {
			continue
		}
		if d := own.time - n.time; d >= 0 && d < least {
			best, least = j, d
		}
	}
	return best
}
