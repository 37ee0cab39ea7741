package transcript

import (
	"cmp"
	"slices"
)

// turn is one turn on a path: from a prompt to the last record before the next.
type turn struct {
	prompt   int
	leaf     int
	answered bool // the agent said something
	from, to int  // its records are path[from:to]
}

// path returns the records from leaf up to the root, across compactions, and the
// uuid at which it leaves the graph: "" if it ends at a root.
func (g *graph) path(leaf int) (path []int, exit string) {
	seen := make(map[int]bool)
	for i := leaf; i != none && !seen[i]; {
		seen[i] = true
		path = append(path, i)
		above := g.above(i)
		if i = g.at(above); i == none {
			return path, above
		}
	}
	return path, ""
}

// above returns the uuid of the record that node i hangs from, "" at a root.
//
// A compaction's boundary names it as its logical parent. If /compact is the first
// prompt of a resumed session, Claude Code 2.1.197 to 2.1.330 name a record that they
// never write. Then it is the newest record that the compaction preserved, or else
// the record written last before the boundary. Only the whole transcript can tell
// that a record is not there.
func (g *graph) above(i int) string {
	n := &g.nodes[i]
	if n.parent != "" || !n.boundary || !g.whole || g.at(n.logical) != none {
		return cmp.Or(n.parent, n.logical)
	}
	if p := n.preserved; p != nil {
		for _, uuid := range slices.Backward(slices.Concat(p.all, p.uuids, []string{p.tail})) {
			if at := g.at(uuid); at != none && at < i {
				return uuid
			}
		}
	}
	for j := i - 1; j >= 0; j-- {
		if before := &g.nodes[j]; before.kind.chains() && !before.sidechain {
			return before.uuid
		}
	}
	return n.logical
}

// split finds the turns of a path, newest first.
func (g *graph) split(path []int) []turn {
	var out []turn
	start, leaf := 0, none
	answered, replied := false, false
	for at, i := range path {
		if leaf == none {
			start, leaf = at, i
		}
		s := g.nodes[i].said
		if s == nil {
			continue
		}
		switch s.role {
		case roleReply:
			answered, replied = true, true
		case roleNotice:
			answered = true
		case rolePrompt, roleMaybe:
			if s.role == roleMaybe && !replied {
				continue
			}
			out = append(out, turn{prompt: i, leaf: leaf, answered: answered, from: start, to: at + 1})
			leaf, answered, replied = none, false, false
		}
	}
	return out
}

// ends returns, for each of turns (newest first), where in the file the last
// record ends that belongs to it or to a turn before it. A record that hangs from
// a turn's but is not on its path, as parallel tool results are, belongs to it.
func (g *graph) ends(path []int, turns []turn) []int64 {
	onPath := make(map[int]bool, len(path))
	for _, i := range path {
		onPath[i] = true
	}
	below := make(map[int][]int)
	for i := range g.nodes {
		n := &g.nodes[i]
		if p := g.at(n.parent); p != none && !onPath[i] && !n.sidechain && (n.said == nil || n.said.role != rolePrompt) {
			below[p] = append(below[p], i)
		}
	}
	out := make([]int64, len(turns))
	end := int64(0)
	for t := len(turns) - 1; t >= 0; t-- {
		upTo := turns[t].to
		if t == len(turns)-1 {
			upTo = len(path) // what stands above the first prompt belongs to the first turn
		}
		todo := append([]int(nil), path[turns[t].from:upTo]...)
		for len(todo) > 0 {
			i := todo[len(todo)-1]
			todo = append(todo[:len(todo)-1], below[i]...)
			delete(below, i)
			end = max(end, g.nodes[i].to)
		}
		out[t] = end
	}
	return out
}

// leaf returns the newest record of the live line: what was written last, unless
// a later pointer says the user went elsewhere. before is the leaf of what
// precedes a graph of a transcript's end. It is not sure if only the rest of the
// file could tell.
func (g *graph) leaf(before string, whole bool) (leaf string, sure bool) {
	leaf = before
	if g.newest != none {
		leaf = g.nodes[g.newest].uuid
	}
	p := g.pointer
	if g.last && p.cleared {
		return "", true
	}
	if g.last && p.uuid != leaf {
		leaf, sure = g.pointed(leaf, p, whole)
		if !sure {
			return "", false
		}
	}
	return g.begun(leaf, before, whole)
}

// pointed decides between the newest record and one a pointer names.
func (g *graph) pointed(leaf string, p pointer, whole bool) (string, bool) {
	if !p.explicit {
		path, _ := g.path(g.at(leaf))
		for _, i := range path {
			if g.nodes[i].uuid == p.uuid {
				return leaf, true
			}
		}
	}
	switch {
	case g.at(p.uuid) != none:
		return p.uuid, true
	case whole:
		return leaf, true
	}
	return "", false
}

// begun returns leaf, or "" if nobody has said anything up to it.
func (g *graph) begun(leaf, before string, whole bool) (string, bool) {
	path, exit := g.path(g.at(leaf))
	for _, i := range path {
		if g.nodes[i].kind.speaks() {
			return leaf, true
		}
	}
	switch {
	case len(path) == 0 && leaf == before: // nothing new
		return leaf, true
	case exit == "" || whole:
		return "", true
	case exit == before:
		return leaf, true
	}
	return "", false
}
