package proxy

import (
	"testing"

	"github.com/dalsegno/segno"
)

// TestFirstBehind finds the newest turns that have the position of the turn before them.
func TestFirstBehind(t *testing.T) {
	turn := func(number int, leaf string) segno.Node {
		return segno.Node{Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: number, Session: &segno.Position{Leaf: leaf}}}
	}
	in := func(n segno.Node, session segno.SessionID, offset int64) segno.Node {
		n.Checkpoint.Session.Session, n.Checkpoint.Session.Offset = session, offset
		return n
	}
	cuts := map[segno.SessionID]int64{"cut": 10}
	external := segno.Node{Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointExternal, Session: &segno.Position{Leaf: "a"}}}
	link := segno.Node{}
	for name, c := range map[string]struct {
		line    []segno.Node
		from    int
		isFound bool
	}{
		"none":               {nil, 0, false},
		"one turn":           {[]segno.Node{turn(1, "a")}, 1, false},
		"all are read":       {[]segno.Node{turn(1, "a"), turn(2, "b")}, 2, true},
		"the newest":         {[]segno.Node{turn(1, "a"), turn(2, "b"), turn(3, "b")}, 2, true},
		"the newest two":     {[]segno.Node{turn(1, "a"), turn(2, "b"), turn(3, "b"), turn(4, "b")}, 2, true},
		"an older one":       {[]segno.Node{turn(1, "a"), turn(2, "a"), turn(3, "b")}, 3, true},
		"other commits":      {[]segno.Node{turn(1, "a"), turn(2, "b"), external, link, turn(3, "b"), external}, 4, true},
		"an amended turn":    {[]segno.Node{turn(1, "a"), turn(2, "b"), turn(2, "b")}, 3, true},
		"amended and behind": {[]segno.Node{turn(1, "a"), turn(2, "a"), turn(2, "a")}, 1, false},
		"compaction":         {[]segno.Node{in(turn(1, "a"), "s", 10), in(turn(2, "a"), "s", 20)}, 2, true},
		"behind in a cut":    {[]segno.Node{in(turn(1, "x"), "s", 5), in(turn(2, "a"), "s", 12), in(turn(3, "a"), "cut", 10)}, 2, true},
		"compaction in it":   {[]segno.Node{in(turn(1, "a"), "s", 12), in(turn(2, "a"), "cut", 20)}, 2, true},
		"cut window":         {[]segno.Node{turn(2, "b"), turn(3, "b")}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if from, isFound := firstBehind(c.line, cuts); from != c.from || isFound != c.isFound {
				t.Errorf("it begins at %d, %v; want %d, %v", from, isFound, c.from, c.isFound)
			}
		})
	}
}
