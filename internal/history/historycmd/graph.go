package historycmd

import (
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// graph draws a tree of checkpoints, newest first, with one column for each line that continues below the
// row. lanes has the next checkpoint of each column.
type graph struct{ lanes []segno.CommitID }

// row returns the columns of a checkpoint's row with its glyph. joint is the row below that joins
// columns, or "".
func (g *graph) row(id, parent segno.CommitID, glyph string) (lanes, joint string) {
	at := slices.Index(g.lanes, id)
	if at < 0 {
		at = len(g.lanes)
		g.lanes = append(g.lanes, id)
	}
	g.lanes[at] = parent
	cols := slices.Repeat([]string{"│"}, len(g.lanes))
	cols[at] = glyph
	return strings.Join(cols, " "), strings.Join(g.join(), "\n")
}

// join merges columns with the same next checkpoint, one pair in each returned row. It drops
// columns at the end that have no next checkpoint.
func (g *graph) join() (rows []string) {
	for from := len(g.lanes) - 1; from > 0; from-- {
		to := slices.Index(g.lanes, g.lanes[from])
		if g.lanes[from] == "" || to == from {
			continue
		}
		cols := slices.Repeat([]string{"│ "}, len(g.lanes))
		for i := to; i < from; i++ {
			cols[i] = "┼─"
		}
		cols[to], cols[from] = "├─", "╯ "
		rows = append(rows, strings.TrimRight(strings.Join(cols, ""), " "))
		g.lanes = slices.Delete(g.lanes, from, from+1)
		from = len(g.lanes) // begin again at the end
	}
	for len(g.lanes) > 0 && g.lanes[len(g.lanes)-1] == "" {
		g.lanes = g.lanes[:len(g.lanes)-1]
	}
	return rows
}
