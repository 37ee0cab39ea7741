package cli

import (
	"strings"

	"github.com/dalsegno/segno"
)

// graph draws a tree of checkpoints, newest first, one column per line that is
// open at a row. Each column waits for the checkpoint it leads down to.
type graph struct{ lanes []segno.CommitID }

// row returns the columns of a checkpoint's row with its glyph, and the row that
// joins columns below it, or "".
func (g *graph) row(id, parent segno.CommitID, glyph string) (lanes, joint string) {
	at := -1
	for i, want := range g.lanes {
		if want == id && at < 0 {
			at = i
		}
	}
	if at < 0 {
		at = len(g.lanes)
		g.lanes = append(g.lanes, id)
	}
	g.lanes[at] = parent
	cols := make([]string, len(g.lanes))
	for i := range cols {
		cols[i] = "│"
	}
	cols[at] = glyph
	lanes = strings.Join(cols, " ")
	return lanes, g.join()
}

// join merges columns that wait for the same checkpoint and drops those that
// lead nowhere.
func (g *graph) join() string {
	for i := len(g.lanes) - 1; i > 0; i-- {
		for j := 0; j < i; j++ {
			if g.lanes[i] != "" && g.lanes[j] == g.lanes[i] {
				return g.drawJoin(j, i)
			}
		}
	}
	for len(g.lanes) > 0 && g.lanes[len(g.lanes)-1] == "" {
		g.lanes = g.lanes[:len(g.lanes)-1]
	}
	return ""
}

func (g *graph) drawJoin(to, from int) string {
	var b strings.Builder
	for i := range g.lanes {
		switch {
		case i == to:
			b.WriteString("├─")
		case i == from:
			b.WriteString("╯ ")
		case i > to && i < from:
			b.WriteString("┼─")
		default:
			b.WriteString("│ ")
		}
	}
	g.lanes = append(g.lanes[:from], g.lanes[from+1:]...)
	text := strings.TrimRight(b.String(), " ")
	if rest := g.join(); rest != "" {
		text += "\n" + rest
	}
	return text
}
