package workspace

import (
	"bytes"
	"slices"
)

// maxMergeBytes is the size above which Merge reports a conflict without comparing the
// contents.
const maxMergeBytes = 8 << 20

// These constants limit the work of one comparison: its time grows with the number of lines
// times the number of edits, and its memory with the square of the edits. Lines that only one
// version has do not count as edits.
const (
	maxLines = 200_000
	maxEdits = 1000
)

// The reasons why Merge reports a conflict.
const (
	whyOverlap   = "the same lines were changed"
	whyBinary    = "a binary file was changed"
	whyTooLarge  = "the file is too large to merge"
	whyTooDiffer = "the versions differ too much to merge"
)

// Merge merges two changed versions of a file, line by line. base is the version
// from which both changed versions were made. It returns the merged content, or the
// reason for a conflict; the reason is "" if the merge is clean.
//
// A hunk is a range of base lines that one side replaced. Two hunks of different sides are
// merged if at least one unchanged line is between them, or if both sides made the same change.
// Otherwise they are a conflict. Adjacent hunks are a conflict, too, as they are in git. If an
// edit could have been made at several places (a line was inserted next to an equal one), its
// hunk covers all of these places, so that the result never depends on a choice between them.
//
// A line includes the "\n" at its end. Content with a NUL byte is binary. Time and memory are
// bounded for any input.
func (*Dir) Merge(base, ours, theirs []byte) (merged []byte, conflict string) {
	switch {
	case bytes.Equal(ours, theirs), bytes.Equal(base, theirs):
		return ours, ""
	case bytes.Equal(base, ours):
		return theirs, ""
	}
	for _, content := range [][]byte{base, ours, theirs} {
		if len(content) > maxMergeBytes {
			return nil, whyTooLarge
		}
		if bytes.IndexByte(content, 0) >= 0 {
			return nil, whyBinary
		}
	}
	lines := map[string]int32{}
	b, o, t := number(base, lines), number(ours, lines), number(theirs, lines)
	if max(len(b.ids), len(o.ids), len(t.ids)) > maxLines {
		return nil, whyTooLarge
	}
	left, ok := hunksBetween(b.ids, o.ids, len(lines))
	if !ok {
		return nil, whyTooDiffer
	}
	right, ok := hunksBetween(b.ids, t.ids, len(lines))
	if !ok {
		return nil, whyTooDiffer
	}
	return join3(b, o, t, left, right)
}

// text is a content split into lines. Equal lines have equal ids.
type text struct {
	lines [][]byte
	ids   []int32
}

// number splits a content into lines and assigns each line its id from known.
func number(content []byte, known map[string]int32) text {
	var t text
	for line := range bytes.Lines(content) {
		id, ok := known[string(line)]
		if !ok {
			id = int32(len(known))
			known[string(line)] = id
		}
		t.lines, t.ids = append(t.lines, line), append(t.ids, id)
	}
	return t
}

// hunk is a change of the lines from … end of one content to the lines newFrom … newEnd of
// another one.
type hunk struct{ from, end, newFrom, newEnd int }

// hunksBetween returns the hunks that turn a into b; ids is the number of ids. It returns false
// if the comparison needs too many edits.
//
// hunksBetween computes two alignments, one from the beginning and one from the end. A line
// counts as unchanged only if both match it with the same line. This makes the hunks larger
// than necessary only where the alignment is ambiguous.
func hunksBetween(a, b []int32, ids int) ([]hunk, bool) {
	inA, inB := make([]bool, ids), make([]bool, ids)
	for _, id := range a {
		inA[id] = true
	}
	for _, id := range b {
		inB[id] = true
	}
	// Lines that the other side does not have cannot match. Without them, most comparisons are
	// short.
	atA, atB := positions(a, inB), positions(b, inA)
	first, ok := align(a, atA, b, atB)
	if !ok {
		return nil, false
	}
	slices.Reverse(atA)
	slices.Reverse(atB)
	last, ok := align(a, atA, b, atB)
	if !ok {
		return nil, false
	}
	return hunksOf(len(a), len(b), first, last), true
}

// positions returns the indexes of those elements of s that are in the set.
func positions(s []int32, set []bool) []int {
	at := make([]int, 0, len(s))
	for i, id := range s {
		if set[id] {
			at = append(at, i)
		}
	}
	return at
}

// unmatched marks a line without a counterpart in an alignment.
const unmatched = -1

// hunksOf returns the ranges between the lines that both alignments match with the
// same counterpart.
func hunksOf(lenA, lenB int, first, last []int) []hunk {
	var hunks []hunk
	h := hunk{}
	flush := func(a, b int) {
		if h.end, h.newEnd = a, b; h.from < a || h.newFrom < b {
			hunks = append(hunks, h)
		}
		h.from, h.newFrom = a+1, b+1
	}
	for a, b := range first {
		if b != unmatched && last[a] == b {
			flush(a, b)
		}
	}
	flush(lenA, lenB)
	return hunks
}

// align matches equal lines of a and b: a longest common subsequence of the lines at atA and
// atB. It uses the greedy algorithm of Myers ("An O(ND) Difference Algorithm and Its
// Variations", 1986), which prefers matches early in the given order. It returns false above
// maxEdits. For each line of a, the result has the index of its counterpart in b.
func align(a []int32, atA []int, b []int32, atB []int) ([]int, bool) {
	n, m := len(atA), len(atB)
	limit := min(n+m, maxEdits)
	reach := make([]int32, 2*limit+3) // by diagonal x-y, the furthest x
	center := limit + 1
	var trace [][]int32 // the values of reach before each round, from diagonal -d to d
	for d := 0; d <= limit; d++ {
		trace = append(trace, slices.Clone(reach[center-d:center+d+1]))
		for k := -d; k <= d; k += 2 {
			x := reach[center+k-1] + 1
			if k == -d || k != d && reach[center+k-1] < reach[center+k+1] {
				x = reach[center+k+1]
			}
			y := int(x) - k
			for int(x) < n && y < m && y >= 0 && a[atA[x]] == b[atB[y]] {
				x, y = x+1, y+1
			}
			reach[center+k] = x
			if int(x) >= n && y >= m {
				matched := slices.Repeat([]int{unmatched}, len(a))
				backtrack(atA, atB, trace, matched)
				return matched, true
			}
		}
	}
	return nil, false
}

// backtrack follows a finished search back to its beginning and records the lines that it
// matched in matched.
func backtrack(atA, atB []int, trace [][]int32, matched []int) {
	x, y := len(atA), len(atB)
	for d := len(trace) - 1; d > 0; d-- {
		// at returns the furthest x of round d-1 on a diagonal. trace[d] was copied before
		// round d and starts at diagonal -d.
		at := func(k int) int { return int(trace[d][k+d]) }
		k := x - y
		down := k == -d || k != d && at(k-1) < at(k+1)
		up := k - 1
		if down {
			up = k + 1
		}
		fromX := at(up)
		fromY := fromX - up
		stepX, stepY := fromX+1, fromY
		if down {
			stepX, stepY = fromX, fromY+1
		}
		for x > stepX && y > stepY {
			x, y = x-1, y-1
			matched[atA[x]] = atB[y]
		}
		x, y = fromX, fromY
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		matched[atA[x]] = atB[y]
	}
}

// join3 applies the hunks of both sides to base.
func join3(base, ours, theirs text, left, right []hunk) ([]byte, string) {
	var out []byte
	add := func(lines [][]byte) {
		for _, line := range lines {
			out = append(out, line...)
		}
	}
	done := 0 // the number of base lines that are in out
	for len(left) > 0 || len(right) > 0 {
		from, end, nl, nr := cluster(left, right)
		add(base.lines[done:from])
		was := base.lines[from:end]
		l, r := replaced(was, ours, left[:nl], from, end), replaced(was, theirs, right[:nr], from, end)
		switch {
		case slices.EqualFunc(was, r, bytes.Equal), slices.EqualFunc(l, r, bytes.Equal):
			add(l)
		case slices.EqualFunc(was, l, bytes.Equal):
			add(r)
		default:
			return nil, whyOverlap
		}
		left, right, done = left[nl:], right[nr:], end
	}
	add(base.lines[done:])
	return out, ""
}

// cluster returns the next range of base lines in which nl hunks of the left and nr hunks of
// the right overlap or touch each other.
func cluster(left, right []hunk) (from, end, nl, nr int) {
	switch {
	case len(right) == 0 || len(left) > 0 && left[0].from <= right[0].from:
		from, end, nl = left[0].from, left[0].end, 1
	default:
		from, end, nr = right[0].from, right[0].end, 1
	}
	for {
		switch {
		case nl < len(left) && left[nl].from <= end:
			end = max(end, left[nl].end)
			nl++
		case nr < len(right) && right[nr].from <= end:
			end = max(end, right[nr].end)
			nr++
		default:
			return from, end, nl, nr
		}
	}
}

// replaced returns the lines with which one side replaces the base lines was, which are those
// between from and end. hunks are the side's hunks in that range.
func replaced(was [][]byte, side text, hunks []hunk, from, end int) [][]byte {
	if len(hunks) == 0 {
		return was
	}
	first, last := hunks[0], hunks[len(hunks)-1]
	return side.lines[first.newFrom-(first.from-from) : last.newEnd+(end-last.end)]
}
