package claude

import (
	"cmp"
	"slices"

	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// lintLine is a line of the transcript.
type lintLine struct {
	sessionfile.Place
	number int
	node   int // none if the line is not a record of the conversation
	time   int64
	leaf   string // the record that a pointer names
}

// noteLine stores the facts about a line that checkOrder needs.
func (l *linter) noteLine(r *record, p sessionfile.Piece) {
	x := lintLine{Place: sessionfile.Place{From: p.Offset, To: p.End()}, number: p.Line, node: l.graph.index(string(r.uuid)), time: noTime}
	if at, ok := r.time(); ok {
		x.time = at
	}
	if r.kind == kindLastPrompt {
		x.leaf = text(r.leaf)
	}
	l.lines = append(l.lines, x)
}

// checkOrder checks that the lines are in the order in which the agent wrote them, as far as the agent
// depends on that order. The agent continues from the last line, and leaves out the records before a
// compaction. But it writes some records before their parents itself. checkOrder reports whether it
// changes the order. The other rules then judge the result.
func (l *linter) checkOrder() bool {
	first := slices.IndexFunc(l.lines, func(x lintLine) bool {
		parent := none
		if x.node != none {
			parent = l.graph.index(l.graph.nodes[x.node].parent)
		}
		return parent != none && l.graph.nodes[parent].from > x.From
	})
	if first < 0 || l.graph.pointer.isExplicit || l.graph.pointer.isEmpty || !l.isMisread() {
		return false
	}
	l.mend.Add(transcript.CodeOrder, l.lines[first].number, l.lines[first].From,
		"the lines are not in the order in which the agent wrote them; it continues from an old message, and leaves out everything after it", "put in order")
	var places []sessionfile.Place
	for _, x := range l.inOrder() {
		places = append(places, x.Place)
	}
	l.mend.Reorder(places)
	return true
}

// isMisread reports whether the agent would continue from another message than the newest one, or would
// lose records that are newer than the last compaction.
func (l *linter) isMisread() bool {
	v := l.graph.load()
	newest, boundary := none, int64(noTime)
	for i := range v.nodes {
		n := &v.nodes[i]
		if n.isBoundary {
			boundary = max(boundary, n.time)
		}
		if n.kind.isMessage() && !n.isSidechain && n.time != noTime && (newest == none || n.time >= v.nodes[newest].time) {
			newest = i
		}
	}
	if newest == none {
		return false
	}
	for i := range v.nodes {
		if boundary != noTime && v.gone[i] && v.nodes[i].time > boundary {
			return true
		}
	}
	head := v.head()
	return head != newest && !slices.Contains(slices.Collect(v.ancestors(head)), newest)
}

// inOrder returns the lines in the order of their times, with each record behind its parent. A line without
// a time stays behind the line before it, and a pointer stays behind the record that it names.
func (l *linter) inOrder() []lintLine {
	lines := slices.Clone(l.lines)
	if isReversed(lines) {
		slices.Reverse(lines)
	}
	byNode := map[int]lintLine{}
	last := int64(noTime)
	for i := range lines {
		x := &lines[i]
		if at := l.graph.index(x.leaf); at != none && l.graph.nodes[at].time != noTime {
			x.time = l.graph.nodes[at].time
		} else if x.time == noTime {
			x.time = last
		}
		last = x.time
		if x.node != none {
			byNode[x.node] = *x
		}
	}
	slices.SortStableFunc(lines, func(a, b lintLine) int { return cmp.Compare(a.time, b.time) })
	var out []lintLine
	done := map[int64]bool{}
	for _, x := range lines {
		var path []lintLine // the line and its ancestors that are not in out
		for at, ok := x, true; ok && !done[at.From]; {
			done[at.From] = true
			path = append(path, at)
			above := at.leaf
			if at.node != none {
				above = l.graph.above(at.node)
			}
			at, ok = byNode[l.graph.index(above)]
		}
		slices.Reverse(path)
		out = append(out, path...)
	}
	return out
}

// isReversed reports whether the times of most lines descend.
func isReversed(lines []lintLine) bool {
	descending, ascending, before := 0, 0, int64(noTime)
	for _, x := range lines {
		switch {
		case x.time == noTime:
			continue
		case before != noTime && x.time < before:
			descending++
		case before != noTime && x.time > before:
			ascending++
		}
		before = x.time
	}
	return descending > 4*ascending
}
