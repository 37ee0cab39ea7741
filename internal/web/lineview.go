package web

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// lineView is a timeline that follows the line of the head. The head is at the top. The checkpoints of other lines are
// folded into the checkpoint at which they leave the line. Checkpoints that segno made for itself are hidden.
type lineView struct {
	rows   []viewRow    // oldest first, as the rows of a timeline
	open   map[int]bool // the checkpoints whose folded lines are shown
	own    bool         // checkpoints of segno are shown
	hidden int          // those that are not shown
}

// viewRow is one row of a lineView.
type viewRow struct {
	index int // of the checkpoint
	view  rowView
}

// rowView describes a row in a view of the line.
type rowView struct {
	Inner  bool  `json:"inner"`  // it is on another line, below the checkpoint at which that line begins
	Above  bool  `json:"above"`  // the line continues above this row
	Below  bool  `json:"below"`  // the line continues below this row
	Branch bool  `json:"branch"` // rows of other lines follow below
	Fold   *fold `json:"fold"`   // the other lines that begin here, or null
}

// fold counts the checkpoints of the lines that begin at a checkpoint and do not lead to the head.
type fold struct {
	Total int  `json:"total"`
	Turns int  `json:"turns"` // of them, turns
	Open  bool `json:"open"`  // they are shown
}

// viewOf makes the view of a timeline. open are the checkpoints whose other lines are shown. If around is not -1, the view
// shows the checkpoint with this index.
func viewOf(h *threadHistory, open []segno.CommitID, own bool, around int) *lineView {
	v := &lineView{open: map[int]bool{}, own: own}
	for _, id := range open {
		if i, ok := h.index[id]; ok {
			v.open[i] = true
		}
	}
	others, onLine := otherLines(h)
	if around >= 0 && !isKept(h, around) {
		v.show(h, around)
	}
	for n, i := range onLine { // from the head down
		group := others[i]
		if isOwn(&h.shown[i]) && n > 0 && len(group) == 0 && !isKept(h, i) && !v.own {
			v.hidden++
			continue
		}
		v.rows = append(v.rows, viewRow{i, rowView{Above: n > 0, Below: n < len(onLine)-1}})
		v.addGroup(h, group, i)
	}
	slices.Reverse(v.rows)
	return v
}

// show opens what hides a checkpoint without a name of the user.
func (v *lineView) show(h *threadHistory, i int) {
	if anchor := anchorOf(h, i); anchor >= 0 && !h.places[i].onLine {
		v.open[anchor] = true
	}
	v.own = v.own || isOwn(&h.shown[i]) && h.shown[i].ID != h.Head.Head
}

// addGroup adds the rows of the lines that begin at the checkpoint of the last row. Rows with a name of the user are shown
// also while the others are folded.
func (v *lineView) addGroup(h *threadHistory, group []int, anchor int) {
	if len(group) == 0 {
		return
	}
	main := &v.rows[len(v.rows)-1].view
	f := &fold{Open: v.open[anchor]}
	inner := rowView{Inner: true, Above: true, Below: main.Below}
	first := len(v.rows)
	for _, i := range slices.Backward(group) {
		kept := isKept(h, i)
		if !kept && isOwn(&h.shown[i]) && !v.own {
			v.hidden++
			continue
		}
		if !kept {
			f.Total++
			if isTurn(&h.shown[i]) {
				f.Turns++
			}
		}
		if kept || f.Open {
			v.rows = append(v.rows, viewRow{i, inner})
		}
	}
	main = &v.rows[first-1].view
	main.Branch = len(v.rows) > first
	for n := first; n < len(v.rows); n++ {
		v.rows[n].view.Branch = n < len(v.rows)-1
	}
	if f.Total > 0 {
		main.Fold = f
	}
}

// otherLines returns, for each checkpoint on the line of the head, the checkpoints of the lines that begin there, oldest
// first; and the line itself, from the head down. Checkpoints without an ancestor on the line belong to its oldest one.
func otherLines(h *threadHistory) (others map[int][]int, onLine []int) {
	others = map[int][]int{}
	for i := range slices.Backward(h.places) {
		if h.places[i].onLine {
			onLine = append(onLine, i)
		}
	}
	if len(onLine) == 0 { // the head does not exist: each checkpoint is on the line
		for i := range slices.Backward(h.places) {
			onLine = append(onLine, i)
		}
		return others, onLine
	}
	anchors := make([]int, len(h.places))
	for i := range h.places {
		anchors[i] = i
		if h.places[i].onLine {
			continue
		}
		anchors[i] = onLine[len(onLine)-1]
		if up := h.places[i].parent; up >= 0 {
			anchors[i] = anchors[up]
		}
		others[anchors[i]] = append(others[anchors[i]], i)
	}
	return others, onLine
}

// anchorOf returns the nearest ancestor of a checkpoint on the line of the head, or the oldest checkpoint of the line.
func anchorOf(h *threadHistory, i int) int {
	for i >= 0 && !h.places[i].onLine {
		i = h.places[i].parent
	}
	if i >= 0 {
		return i
	}
	return slices.IndexFunc(h.places, func(p place) bool { return p.onLine })
}

// isOwn reports whether a checkpoint is one that segno made for itself: the state before a move, or a change outside turns
// that changed no file.
func isOwn(c *segno.Checkpoint) bool {
	return c.Kind == segno.CheckpointExternal && (c.Label != "" || c.Files.IsZero())
}

// isKept reports whether the user named a checkpoint: a pin, or a save with a label.
func isKept(h *threadHistory, i int) bool {
	c := &h.shown[i]
	return len(h.Pins[c.ID]) > 0 || c.Kind == segno.CheckpointSave && c.Label != ""
}

func isTurn(c *segno.Checkpoint) bool {
	return c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep
}

// isUndone reports whether what a checkpoint recorded is undone. A checkpoint off the line of the head is undone, except a
// save of the user and a change outside turns whose files are in the workspace as they were recorded: an undo of turns
// leaves these.
func (s *Server) isUndone(ctx context.Context, h *threadHistory, i int) bool {
	c := &h.shown[i]
	if h.places[i].onLine {
		return false
	}
	if c.Kind != segno.CheckpointSave && c.Kind != segno.CheckpointExternal || s.Local == nil || c.Workspace == nil {
		return true
	}
	parent := h.ParentWithFiles(c)
	if parent == nil || parent.Tree().IsZero() || c.Tree().IsZero() {
		return true
	}
	changes, err := s.compare(ctx, parent.Tree(), c.Tree())
	if err != nil {
		return true
	}
	now, err := s.presentTree(ctx, c.Workspace.Workspace)
	if err != nil {
		return true
	}
	for _, x := range changes[:min(len(changes), maxPresence)] {
		if e, err := s.lookup(ctx, now, x.Path); err != nil || e != x.To {
			return true
		}
	}
	return len(changes) > maxPresence
}

// maxPresence is the number of paths of a save that are looked up in the present files.
const maxPresence = 200

// viewParams choose between all checkpoints and a view of the line.
type viewParams struct {
	View string `query:"view" max:"10"`    // "line" or "": all checkpoints
	Open string `query:"open" max:"16384"` // in a view of the line, the checkpoints whose folded lines are shown, with commas between
	Own  int    `query:"own" max:"1"`      // in a view of the line, 1 shows the checkpoints that segno made for itself
}

func (p *viewParams) ids() (open []segno.CommitID) {
	for id := range strings.SplitSeq(p.Open, ",") {
		open = append(open, segno.CommitID(id))
	}
	return open
}

// viewInfo describes the view of the line in a window.
type viewInfo struct {
	Open   []segno.CommitID `json:"open"`   // the checkpoints whose folded lines are shown
	Own    bool             `json:"own"`    // the checkpoints that segno made for itself are shown
	Hidden int              `json:"hidden"` // those that are not shown
}

func (v *lineView) info(h *threadHistory) *viewInfo {
	info := &viewInfo{Open: []segno.CommitID{}, Own: v.own, Hidden: v.hidden}
	for i := range v.open {
		info.Open = append(info.Open, h.shown[i].ID)
	}
	slices.SortFunc(info.Open, func(a, b segno.CommitID) int { return cmp.Compare(a, b) })
	return info
}
