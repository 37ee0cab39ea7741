package claude

import (
	"maps"
	"slices"

	"github.com/dalsegno/segno/transcript"
)

// joinDropped gives the children of each record that the repair leaves out the parent of that record.
func (l *linter) joinDropped() {
	for i := range l.graph.nodes {
		parent := l.graph.nodes[i].parent
		for range l.dropped { // their parents may form a cycle
			above, ok := l.dropped[parent]
			if !ok {
				break
			}
			parent = above
		}
		if parent != l.graph.nodes[i].parent && l.parts[i] != nil {
			l.graph.nodes[i].parent, l.parents[i] = parent, parent
		}
	}
}

// attachResults finds the results whose parent is missing, and makes each a child of the call that it names.
// The agent looks for the results of parallel calls there.
func (l *linter) attachResults(v *loaded) {
	for i := range v.nodes {
		part, n := l.parts[i], &v.nodes[i]
		if part == nil || !part.hasToolResults || v.index(n.parent) != none || v.gone[i] {
			continue
		}
		if call := v.index(part.source); call != none && call != i {
			l.mend.Add(transcript.CodeNoParent, n.line, n.from, "the record before this result is missing, so the agent leaves out the result, or everything before it", "attached to the call of the result")
			l.setParent(v, i, call)
		}
	}
}

// attachResult makes the result of a call a child of the call. At its present place, the agent does not send it.
func (l *linter) attachResult(call placed, id string) {
	for _, i := range slices.Sorted(maps.Keys(l.parts)) {
		n := &l.graph.nodes[i]
		if !slices.ContainsFunc(l.parts[i].blocks, func(b lintBlock) bool { return b.kind == blockResult && b.name == id }) {
			continue
		}
		l.mend.Add(transcript.CodeNoParent, n.line, n.from, "the result is not connected with its call, so the agent leaves out both", "attached to its call")
		l.parents[i] = l.graph.nodes[call.node].uuid
		return
	}
}

// mendChain gives a parent to records that name none or whose parent is missing, if the agent would
// otherwise lose earlier messages. It returns the conversation, newest record first.
func (l *linter) mendChain(v *loaded, head int) []int {
	w := v.newWalk()
	beside, order := &messagesBeside{v: v, in: w.seen}, (*writtenOrder)(nil)
	var unlinked *unlinkedMessages
	for at := head; ; {
		lost, why, loses := w.from(at), "the record before this one is missing, so the agent silently leaves out everything before it", false
		if top := w.chain[len(w.chain)-1]; lost != none {
			loses = beside.first() < lost
		} else if n := &v.nodes[top]; n.parent == "" && !n.isBoundary && !n.isRestart {
			if unlinked == nil {
				unlinked = v.newUnlinkedMessages(w.chain)
			}
			unlinked.link(w.chain)
			lost, why = top, "the record names none before it, so the agent silently leaves out everything before it"
			loses = unlinked.first() < lost
		}
		if lost == none || !loses {
			return w.chain
		}
		if order == nil {
			order = v.newWrittenOrder()
		}
		above := order.before(lost, w.chain)
		if above == none || l.parts[lost] == nil { // a record without a name is not repaired
			return w.chain
		}
		n := &v.nodes[lost]
		l.mend.Add(transcript.CodeNoParent, n.line, n.from, why, "attached to the record written before it")
		l.setParent(v, lost, above)
		at = above
	}
}

// attached returns, for each record, whether a path leads from it to a record of the conversation or to an
// ancestor of the conversation.
func (v *loaded) attached(chain []int) []bool {
	out := make([]bool, len(v.nodes))
	for _, i := range chain {
		for at := i; at != none && !out[at]; at = v.index(v.above(at)) { // across compactions
			out[at] = true
		}
	}
	above, seen := v.linkedTo(), slices.Clone(out)
	for i := range v.nodes {
		visitPath(i, above, seen, func(i, above int) { out[i] = above != none && out[above] })
	}
	return out
}

// linkedTo returns the record above each record, across compactions, or none.
func (v *loaded) linkedTo() []int {
	above := slices.Clone(v.parent)
	for i := range v.nodes {
		if above[i] == none {
			above[i] = v.index(v.above(i))
		}
	}
	return above
}

// visitPath calls visit for a record and its ancestors, oldest first, up to an ancestor that is seen already. The
// second argument of visit is the record above: none at a root, and where the path closes a cycle.
func visitPath(i int, parents []int, seen []bool, visit func(i, above int)) {
	var path []int
	at := i
	for at != none && !seen[at] {
		seen[at] = true
		path = append(path, at)
		at = parents[at]
	}
	if slices.Contains(path, at) {
		at = none
	}
	for _, i := range slices.Backward(path) {
		visit(i, at)
		at = i
	}
}

// joinIslands finds messages that are not connected with the conversation, so that the agent never sends
// them. It inserts them at the place where the agent wrote them. It returns the conversation, newest record
// first.
func (l *linter) joinIslands(v *loaded, chain []int) []int {
	if top := v.nodes[chain[len(chain)-1]]; top.isRestart || l.parts[chain[0]] == nil {
		return chain // the user left the records before it, or the head is not in the conversation
	}
	for range v.nodes {
		island := l.island(v, v.attached(chain))
		if len(island) == 0 {
			return chain
		}
		first, last := island[len(island)-1], island[0]
		n := &v.nodes[first]
		l.mend.Add(transcript.CodeNoParent, n.line, n.from, "the record is not connected with the conversation, so the agent leaves it out", "attached to the record written before it")
		// The place is behind the newest record that was written before it, but not inside an answer.
		at := slices.IndexFunc(chain, func(i int) bool { return v.isWrittenBefore(i, first) })
		if at < 0 {
			for l.parts[chain[len(chain)-1]] == nil { // the repair changes no parent outside of the conversation
				chain = chain[:len(chain)-1]
			}
			l.setParent(v, chain[len(chain)-1], last)
			chain = append(chain, island...)
			continue
		}
		for at > 0 && (l.continuesAnswer(chain[at-1]) || l.parts[chain[at-1]] == nil || v.nodes[chain[at]].uuid == "") {
			at--
		}
		l.setParent(v, first, chain[at])
		if at > 0 {
			l.setParent(v, chain[at-1], last)
		} else {
			l.addPointer(v.nodes[last].uuid)
		}
		chain = slices.Insert(chain, at, island...)
	}
	return chain
}

// island returns a line of records, newest first, that is not connected with the conversation. It begins at
// the first root that has a message below it, and it is the longest line from there to a message.
func (l *linter) island(v *loaded, attached []bool) []int {
	seen, root, depth := make([]bool, len(v.nodes)), make([]int, len(v.nodes)), make([]int, len(v.nodes))
	top, leaf := none, none
	for i := range v.nodes {
		if n := &v.nodes[i]; attached[i] || v.gone[i] || n.isSidechain || l.parts[i] == nil {
			continue
		}
		visitPath(i, v.parent, seen, func(i, above int) {
			if root[i], depth[i] = i, 1; above != none {
				root[i], depth[i] = root[above], depth[above]+1
			}
		})
		if !v.nodes[i].kind.isMessage() || l.parts[root[i]] == nil {
			continue
		}
		if top == none {
			top = root[i]
		}
		if root[i] == top && (leaf == none || depth[i] > depth[leaf]) {
			leaf = i
		}
	}
	if leaf == none {
		return nil
	}
	line := slices.Collect(v.ancestors(leaf))
	return line[:slices.Index(line, top)+1]
}

// isWrittenBefore reports whether the agent wrote record i before record j. It compares their times, or their
// places in the file if one of them has no time.
func (v *loaded) isWrittenBefore(i, j int) bool {
	a, b := &v.nodes[i], &v.nodes[j]
	if a.time == noTime || b.time == noTime || a.time == b.time {
		return i < j
	}
	return a.time < b.time
}

// continuesAnswer reports whether a record is a block of an answer or a result of a tool. joinIslands must
// not insert a record before it.
func (l *linter) continuesAnswer(i int) bool {
	part := l.parts[i]
	if part == nil {
		return false
	}
	above := l.parts[l.graph.index(l.parentOf(i))]
	return part.hasToolResults || above != nil && part.id != "" && part.id == above.id
}
