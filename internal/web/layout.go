package web

import "github.com/dalsegno/segno"

// maxLanes is the number of columns of the graph. Further lines share the last one.
const maxLanes = 32

// place is the position of a checkpoint in the graph of a thread.
type place struct {
	parent  int   // the index of the parent, -1 without one
	lane    int   // its column
	through []int // the columns of lines that pass it
	joins   []int // the columns of the lines that come from its children
	onLine  bool  // it is the head or an ancestor of the head
}

// layOut places checkpoints, which come newest first, in columns. The newest line is in column 0.
// Indexes count from the oldest checkpoint. It takes time in proportion to the number of
// checkpoints.
func layOut(newestFirst []segno.Checkpoint, head segno.CommitID) []place {
	n := len(newestFirst)
	places := make([]place, n)
	index := make(map[segno.CommitID]int, n)
	for i := range newestFirst {
		index[newestFirst[i].ID] = n - 1 - i
	}
	var lanes laneSet
	for i := range newestFirst {
		c := &newestFirst[i]
		at := n - 1 - i
		p := &places[at]
		p.parent = -1
		if up, ok := index[c.Parent]; ok && up < at {
			p.parent = up
		}
		p.lane, p.joins = lanes.take(c.ID)
		p.through = lanes.occupied()
		if p.parent >= 0 {
			lanes.lead(p.lane, c.Parent)
		}
	}
	for at, ok := index[head]; ok && at >= 0; at = places[at].parent {
		places[at].onLine = true
	}
	return places
}

// laneSet has, for each column, the checkpoint at which its line ends below, or "".
type laneSet struct {
	to     [maxLanes]segno.CommitID
	shared map[segno.CommitID]bool // where the lines of the last column end
}

// take returns the column of a checkpoint and all columns whose lines end at it, and frees them.
func (l *laneSet) take(id segno.CommitID) (lane int, joins []int) {
	lane = -1
	free := maxLanes - 1
	for i := maxLanes - 2; i >= 0; i-- {
		switch l.to[i] {
		case id:
			lane, l.to[i] = i, ""
			joins = append([]int{i}, joins...)
		case "":
			free = i
		}
	}
	if l.shared[id] {
		delete(l.shared, id)
		joins = append(joins, maxLanes-1)
	}
	if lane < 0 {
		lane = free
	}
	return lane, joins
}

// lead sets the checkpoint at which the line of a column ends.
func (l *laneSet) lead(lane int, to segno.CommitID) {
	if lane < maxLanes-1 {
		l.to[lane] = to
		return
	}
	if l.shared == nil {
		l.shared = map[segno.CommitID]bool{}
	}
	l.shared[to] = true
}

// occupied returns the columns that have a line.
func (l *laneSet) occupied() (lanes []int) {
	for i, to := range l.to {
		if to != "" {
			lanes = append(lanes, i)
		}
	}
	if len(l.shared) > 0 {
		lanes = append(lanes, maxLanes-1)
	}
	return lanes
}
