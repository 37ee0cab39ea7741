package historycmd

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/timeline"
)

// touchingItem is one element of log --json -- PATH.
type touchingItem struct {
	history.Item
	Undone  bool              `json:"undone"` // it is not on the line of the head
	Touched []history.Touched `json:"touched"`
}

// runLogOfPaths lists the checkpoints that touched paths, newest first, at most limit if it is positive. Unlike the
// graph, it contains each step of a Go agent that touched one of them.
func (a *app) runLogOfPaths(ctx context.Context, d *cli.Workspace, args []string, limit int) error {
	h, err := a.History(ctx, d)
	if err != nil {
		return err
	}
	if err := h.FindRunning(ctx, d.Timeline); err != nil {
		return err
	}
	var paths []string
	for _, arg := range args {
		named, err := cli.NamedPaths(d, arg)
		if err != nil {
			return err
		}
		paths = append(paths, named...)
	}
	all := func(yield func(*segno.Checkpoint) bool) {
		for i := range h.All {
			if !yield(&h.All[i]) {
				return
			}
		}
	}
	reachable := map[segno.CommitID]bool{}
	for _, c := range h.Line(h.Head.Head) {
		reachable[c.ID] = true
	}
	items, touches := []touchingItem{}, []timeline.Touch{}
	finder := timeline.PathFinder{Store: d.Store, Diff: d.Timeline.Workspace.Diff}
	for touch, err := range finder.Touching(ctx, all, paths...) {
		if err != nil {
			return err
		}
		touches = append(touches, touch)
		items = append(items, touchingItem{h.Item(touch.Checkpoint), !reachable[touch.Checkpoint.ID], history.TouchedPaths(touch.Changes)})
		if len(items) == limit {
			break
		}
	}
	if len(items) == 0 {
		a.Notef("no checkpoint of this thread changed %s", cli.Inline(args[0]))
	}
	return a.PrintLong(items, func(p *cli.Printer) {
		for i := range items {
			a.writeTouching(p, h, touches[i].Checkpoint, &items[i])
		}
	})
}

// maxTouchedPaths is the number of paths of one checkpoint in the text.
const maxTouchedPaths = 20

// writeTouching prints a checkpoint, and below it what it did to the paths.
func (a *app) writeTouching(p *cli.Printer, h *history.History, c *segno.Checkpoint, it *touchingItem) {
	tail := ""
	if it.Undone {
		tail = "  " + p.Dim("undone")
	}
	room := p.Width()
	if room > 0 {
		room = max(1, room-len("@ ")-cli.Visible(tail))
	}
	p.Linef("%s", p.Drawn(p.Glyph(h, c)+" "+describeCheckpoint(h, c, a.Lead(p.Paint, cli.Label(c), c.Time), p.Paint, room)+tail))
	for _, t := range it.Touched[:min(len(it.Touched), maxTouchedPaths)] {
		text := "    " + t.String()
		if by := t.By(); by != "" {
			text += p.Dim("  by " + cli.Inline(by))
		}
		p.Linef("%s", p.Drawn(text))
	}
	if more := len(it.Touched) - maxTouchedPaths; more > 0 {
		p.Linef("    and %s", cli.Files(more)+" more")
	}
}
