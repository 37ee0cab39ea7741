package claude

import (
	"cmp"
	"slices"
)

// turn is one turn on a path: from a prompt to the last record before the next.
type turn struct {
	prompt     int
	leaf       int
	isAnswered bool
	from, to   int // its records are path[from:to]
}

// path returns the records from leaf up to the root, across compactions, and the
// uuid at which it leaves the graph: "" if it ends at a root.
func (g *graph) path(leaf string) (path []int, exit string) {
	seen := make(map[int]bool)
	for i := g.index(leaf); i != none && !seen[i]; {
		seen[i] = true
		path = append(path, i)
		above := g.above(i)
		if i = g.index(above); i == none {
			return path, above
		}
	}
	return path, ""
}

// above returns the uuid of the record above node i, "" at a root.
//
// A compaction's boundary names it as its logical parent. If /compact is the first
// prompt of a resumed session, Claude Code 2.1.197 to 2.1.332 name a record that they
// never write. Then it is the newest record that the compaction preserved, or else
// the record written last before the boundary. Only the whole transcript can show
// that a record is missing.
func (g *graph) above(i int) string {
	n := &g.nodes[i]
	if n.parent != "" || !n.isBoundary || !g.isWhole || g.index(n.logical) != none {
		return cmp.Or(n.parent, n.logical)
	}
	if p := n.preserved; p != nil {
		for _, uuid := range slices.Backward(slices.Concat(p.all, p.uuids, []string{p.tail})) {
			if at := g.index(uuid); at != none && at < i {
				return uuid
			}
		}
	}
	for j := i - 1; j >= 0; j-- {
		if before := &g.nodes[j]; before.kind.inConversation() && !before.isSidechain {
			return before.uuid
		}
	}
	return n.logical
}

// turnsOf divides a path into turns, newest first.
func (g *graph) turnsOf(path []int) []turn {
	var out []turn
	t := turn{leaf: none}
	hasReply := false
	for at, i := range path {
		if t.leaf == none {
			t.from, t.leaf = at, i
		}
		part := g.nodes[i].part
		if part == nil {
			continue
		}
		switch part.role {
		case roleReply:
			t.isAnswered, hasReply = true, true
		case roleNotice:
			t.isAnswered = true
		case rolePrompt, roleCommand:
			if part.role == roleCommand && !hasReply {
				continue
			}
			t.prompt, t.to = i, at+1
			out = append(out, t)
			t, hasReply = turn{leaf: none}, false
		}
	}
	return out
}

// ends returns a file offset for each turn, newest first: the end of the last record that
// belongs to this turn or to an earlier one. A record below a turn's records that is
// not on the path, for example the result of a parallel tool call, belongs to that turn.
// The records above the first prompt belong to the first turn.
func (g *graph) ends(path []int, turns []turn) []int64 {
	onPath := make(map[int]bool, len(path))
	for _, i := range path {
		onPath[i] = true
	}
	below := g.childrenIf(func(i int) bool {
		n := &g.nodes[i]
		return !onPath[i] && !n.isSidechain && (n.part == nil || n.part.role != rolePrompt)
	})
	out := make([]int64, len(turns))
	end, upTo := int64(0), len(path)
	for t := len(turns) - 1; t >= 0; t-- {
		below.visit(path[turns[t].from:upTo], func(i int) { end = max(end, g.nodes[i].to) })
		out[t], upTo = end, turns[t].from
	}
	return out
}

// children are the records directly below each record.
type children map[int][]int

// childrenIf returns the children of all records for which include returns true.
func (g *graph) childrenIf(include func(int) bool) children {
	below := children{}
	for i := range g.nodes {
		if p := g.index(g.nodes[i].parent); p != none && include(i) {
			below[p] = append(below[p], i)
		}
	}
	return below
}

// visit calls do for the records of start and all below them. It removes the children of
// the records that it visits.
func (c children) visit(start []int, do func(int)) {
	for todo := slices.Clone(start); len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], c[i]...)
		delete(c, i)
		do(i)
	}
}

// leaf returns the newest record of the current line: the record written last, unless
// a later pointer shows that the user went elsewhere. before is the leaf of the
// transcript before the graph's part of it. ok is false if only the rest of the
// file could show the leaf.
func (g *graph) leaf(before string) (leaf string, ok bool) {
	leaf = before
	if g.newest != none {
		leaf = g.nodes[g.newest].uuid
	}
	if p := g.pointer; g.pointerIsNew {
		if p.isEmpty {
			return "", true
		}
		if leaf, ok = g.followPointer(leaf, p); !ok {
			return "", false
		}
	}
	return g.withMessage(leaf, before)
}

// followPointer decides between the newest record and one a pointer names.
func (g *graph) followPointer(newest string, p pointer) (leaf string, ok bool) {
	if !p.isExplicit {
		path, _ := g.path(newest)
		if slices.ContainsFunc(path, func(i int) bool { return g.nodes[i].uuid == p.uuid }) {
			return newest, true
		}
	}
	switch {
	case p.uuid == newest || g.index(p.uuid) != none:
		return p.uuid, true
	case g.isWhole:
		return newest, true
	}
	return "", false
}

// withMessage returns leaf, or "" if neither leaf nor a record above it is a message.
func (g *graph) withMessage(leaf, before string) (_ string, ok bool) {
	path, exit := g.path(leaf)
	if slices.ContainsFunc(path, func(i int) bool { return g.nodes[i].kind.isMessage() }) {
		return leaf, true
	}
	switch {
	case len(path) == 0 && leaf == before: // nothing new
		return leaf, true
	case exit == "" || g.isWhole:
		return "", true
	case exit == before:
		return leaf, true
	}
	return "", false
}
