package codex

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// checkOrder checks that each line occurs once and that the lines are in the order in which Codex
// wrote them. It reports whether it removes or moves lines. The other rules then judge the result.
func (l *linter) checkOrder() bool {
	kept := l.checkRepeated()
	ordered := l.ordered(kept)
	if ordered == nil && len(kept) == len(l.lines) {
		return false
	}
	if ordered == nil {
		ordered = kept
	}
	for k, i := range ordered {
		if i != kept[k] {
			x := &l.lines[kept[k]]
			l.mend.Add(transcript.CodeOrder, x.piece.Line, x.piece.Offset, "from here on the lines are not in the order in which Codex wrote them, and Codex reads them in the order of the file", "put in order")
			break
		}
	}
	var places []sessionfile.Place
	for _, i := range ordered {
		places = append(places, sessionfile.Place{From: l.lines[i].brace, To: l.lines[i].end})
	}
	l.mend.Reorder(places)
	return true
}

// checkRepeated reports repeated lines, and returns the other lines. Lines that Codex writes for itself
// and never sends to the model may be equal.
func (l *linter) checkRepeated() (kept []int) {
	seen, repeated := map[[sha256.Size]byte]bool{}, []int(nil)
	for i := range l.lines {
		x := &l.lines[i]
		if seen[x.sum] && (x.isItem || x.ordinal >= 0 || x.typ == "session_meta") {
			repeated = append(repeated, i)
			continue
		}
		seen[x.sum] = true
		kept = append(kept, i)
	}
	if len(repeated) > 0 {
		x := &l.lines[repeated[0]]
		l.mend.Add(transcript.CodeRepeated, x.piece.Line, x.piece.Offset, fmt.Sprintf("%d lines are repeated from here on, and the model gets them again", len(repeated)), "left out")
	}
	return kept
}

// ordered returns lines in the order in which Codex wrote them. This is the order of their ordinals, or
// of their times if they have no ordinals. ordered returns nil if the lines are in order or if the right
// order is not known. Clocks sometimes go back, so times count only if the order of the lines is impossible.
func (l *linter) ordered(kept []int) []int {
	byOrdinal := func(a, b int) int { return int(l.lines[a].ordinal - l.lines[b].ordinal) }
	ordinals := map[int64]bool{}
	for _, i := range kept {
		if x := &l.lines[i]; x.ordinal >= 0 {
			ordinals[x.ordinal] = true
		}
	}
	misplacedMeta := l.laterMeta > 0 && l.lines[0].typ != "session_meta"
	var out []int
	switch {
	case l.isPaged && len(ordinals) == len(kept):
		out = slices.Clone(kept)
		slices.SortStableFunc(out, byOrdinal)
	case misplacedMeta || !l.isPaged && l.isImpossible(kept):
		if out = l.orderedByTime(kept); out == nil {
			return nil
		}
	default:
		return nil
	}
	if misplacedMeta {
		out = slices.DeleteFunc(out, func(i int) bool { return i == l.laterMeta })
		out = slices.Insert(out, 0, l.laterMeta)
	}
	if slices.Equal(out, kept) {
		return nil
	}
	return out
}

// orderedByTime returns lines in the order of their times, or nil if one has no time. If most times
// descend, the lines were reversed, so orderedByTime also reverses the lines with the same time.
func (l *linter) orderedByTime(kept []int) []int {
	times := map[int]time.Time{}
	descending, ascending := 0, 0
	for k, i := range kept {
		at, err := time.Parse(time.RFC3339Nano, l.lines[i].stamp)
		if err != nil {
			return nil
		}
		if times[i] = at; k > 0 {
			switch at.Compare(times[kept[k-1]]) {
			case -1:
				descending++
			case 1:
				ascending++
			}
		}
	}
	out := slices.Clone(kept)
	if descending > ascending*4 {
		slices.Reverse(out)
	}
	slices.SortStableFunc(out, func(a, b int) int { return times[a].Compare(times[b]) })
	return out
}

// isImpossible reports whether Codex cannot have written lines in this order: a result is before its
// call, or an item that is older than the line before it is outside a turn.
func (l *linter) isImpossible(kept []int) bool {
	calls := map[string]bool{}
	hasTurns := slices.ContainsFunc(l.lines, func(x lintLine) bool { return x.kind == kindStart })
	inTurn, before := !hasTurns, ""
	for _, i := range kept {
		x := &l.lines[i]
		switch {
		case x.kind == kindStart:
			inTurn = true
		case x.kind == kindEnd:
			inTurn = !hasTurns
		case resultType(x.typ) != "":
			calls[x.call] = true
		case isResultType(x.typ) && !calls[x.call] && l.calls[x.call] > 0:
			return true
		}
		if x.isItem && !inTurn && strings.Compare(x.stamp, before) < 0 {
			return true
		}
		before = x.stamp
	}
	return false
}
