// Package history reads the checkpoints of a thread, and describes threads, checkpoints and
// operations in the JSON that the command line and the HTTP API share. It needs only a store: a
// workspace on this machine is not required.
package history

import (
	"cmp"
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// History has a thread's checkpoints on all lines, newest first. For a fork, it also has the
// ancestors on other threads.
type History struct {
	Head segno.Head
	All  []segno.Checkpoint
	ByID map[segno.CommitID]*segno.Checkpoint
	Pins map[segno.CommitID][]string
	// Running has the turns with background tasks that still run; see FindRunning.
	Running map[segno.CommitID]bool
	// Usage has what turns used, if the caller read it; see UsageReader.
	Usage map[segno.CommitID]*Usage

	// amendments has the checkpoint that amends another one, by the id of that one.
	amendments map[segno.CommitID]segno.CommitID
	storedHead segno.Head // the head in the store, before linkParents changed it
	newest     int64      // the highest seq of the thread's checkpoints
	isBrief    bool       // see ReadBrief
	prompts    map[segno.CommitID]int
}

// FindRunning finds the turns that have ended while their background tasks still run.
func (h *History) FindRunning(ctx context.Context, tl *timeline.Timeline) error {
	turns, err := tl.Spool.Turns(ctx)
	if err != nil {
		return err
	}
	h.Running = map[segno.CommitID]bool{}
	for _, t := range turns {
		if t.Ended == "" {
			continue
		}
		running, err := tl.RunningTasks(ctx, &t)
		if err != nil {
			return err
		}
		h.Running[t.Ended] = t.Awake || len(running) > 0
	}
	return nil
}

// Read reads a thread's checkpoints. If another process moves or amends the head in the meantime,
// the list may lack the head that Read loaded first, so Read starts again.
func Read(ctx context.Context, store segno.Store, thread segno.ThreadID) (*History, error) {
	return readStable(ctx, store, thread, func(h *History) error { return h.readAll(ctx, store, thread) })
}

// readStable calls read until the head is the same before and after the call.
func readStable(ctx context.Context, store segno.Store, thread segno.ThreadID, read func(*History) error) (*History, error) {
	const most = 20 // the last result counts even if the thread moved again
	for tries := 1; ; tries++ {
		h := &History{ByID: map[segno.CommitID]*segno.Checkpoint{}, Pins: map[segno.CommitID][]string{},
			amendments: map[segno.CommitID]segno.CommitID{}}
		var err error
		if h.Head, err = store.Head(ctx, thread); err != nil {
			return nil, err
		}
		h.storedHead = h.Head
		if err := read(h); err != nil {
			return nil, err
		}
		now, err := store.Head(ctx, thread)
		if err != nil {
			return nil, err
		}
		if now.Head == h.storedHead.Head && now.Tip == h.storedHead.Tip || tries == most {
			return h, nil
		}
	}
}

func (h *History) readAll(ctx context.Context, store segno.Store, thread segno.ThreadID) error {
	if _, err := h.readSince(ctx, store, thread, 0); err != nil {
		return err
	}
	if err := h.readForkAncestors(ctx, store, thread); err != nil {
		return err
	}
	for i := range h.All {
		h.ByID[h.All[i].ID] = &h.All[i]
	}
	if err := h.linkParents(ctx, store); err != nil {
		return err
	}
	return h.readPins(ctx, store)
}

// readSince reads the checkpoints of a thread with a seq above after. It leaves out a checkpoint
// that a later one amends and so replaces. It returns the ids of all amended checkpoints.
func (h *History) readSince(ctx context.Context, store segno.Store, thread segno.ThreadID, after int64) (map[segno.CommitID]bool, error) {
	amended := map[segno.CommitID]bool{}
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		if err != nil {
			return nil, err
		}
		if c.Seq <= after {
			break
		}
		h.newest = max(h.newest, c.Seq)
		if c.Amends != "" {
			amended[c.Amends], h.amendments[c.Amends] = true, c.ID
		}
		if !amended[c.ID] {
			h.add(c)
		}
	}
	return amended, nil
}

func (h *History) add(c segno.Checkpoint) {
	if h.isBrief {
		h.shorten(&c)
	}
	h.All = append(h.All, c)
}

func (h *History) readPins(ctx context.Context, store segno.Store) error {
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return err
		}
		h.Pins[c.ID] = segno.PinNames(c.Label)
	}
	return nil
}

// readForkAncestors adds the checkpoints of other threads that are ancestors of a fork.
func (h *History) readForkAncestors(ctx context.Context, store segno.Store, thread segno.ThreadID) error {
	if len(h.All) == 0 || h.All[len(h.All)-1].Parent == "" {
		return nil
	}
	line, err := store.Load(ctx, h.All[len(h.All)-1].Parent, segno.Window{})
	if err != nil {
		return err
	}
	for i := len(line.Commits) - 1; i >= 0; i-- {
		if c := line.Commits[i].Checkpoint; c != nil && c.Thread != thread {
			h.add(*c)
		}
	}
	return nil
}

// linkParents replaces each parent, the head and the tip by the nearest checkpoint at or below
// it, because a Go agent also makes commits that are not checkpoints.
func (h *History) linkParents(ctx context.Context, store segno.Store) (err error) {
	below := map[segno.CommitID]segno.CommitID{} // the nearest checkpoint of each commit that was read
	nearest := func(id segno.CommitID) (segno.CommitID, error) {
		for _, leaf := range []segno.CommitID{h.Head.Tip, id} { // most checkpoints are on the line of the tip
			if _, known := below[id]; known {
				break
			}
			line, err := store.Load(ctx, leaf, segno.Window{})
			if err != nil {
				return "", err
			}
			var newest segno.CommitID
			for i := range line.Commits {
				if line.Commits[i].Checkpoint != nil {
					newest = line.Commits[i].ID
				}
				below[line.Commits[i].ID] = newest
			}
		}
		return below[id], nil
	}
	for i := range h.All {
		c := &h.All[i]
		if c.Parent == "" || h.ByID[c.Parent] != nil {
			continue
		}
		if c.Parent, err = nearest(c.Parent); err != nil {
			return err
		}
	}
	for _, at := range []*segno.CommitID{&h.Head.Head, &h.Head.Tip} {
		if *at == "" || h.ByID[*at] != nil {
			continue
		}
		id, err := nearest(*at)
		if err != nil && segno.KindOf(err) != segno.KindNotFound {
			return err
		}
		*at = cmp.Or(id, *at)
	}
	return nil
}

// WithoutInnerSteps returns the checkpoints without each step that a later checkpoint of the same
// turn follows. The children of an omitted step get the step's parent.
func (h *History) WithoutInnerSteps() []segno.Checkpoint {
	wentOn := map[segno.CommitID]bool{}
	for i := range h.All {
		if c := &h.All[i]; h.isInnerStep(h.ByID[c.Parent], c) {
			wentOn[c.Parent] = true
		}
	}
	shown := make([]segno.Checkpoint, 0, len(h.All))
	for _, c := range h.All {
		if wentOn[c.ID] {
			continue
		}
		for wentOn[c.Parent] {
			c.Parent = h.ByID[c.Parent].Parent
		}
		shown = append(shown, c)
	}
	return shown
}

// isInnerStep reports whether a step is inside the turn of its child c. The head and checkpoints with names do not count.
func (h *History) isInnerStep(step, c *segno.Checkpoint) bool {
	return step != nil && step.Kind == segno.CheckpointStep && step.Turn == c.Turn && step.ID != h.Head.Head && len(h.Pins[step.ID]) == 0
}

// parent returns the parent of a checkpoint in the log, or nil.
func (h *History) parent(c *segno.Checkpoint) *segno.Checkpoint {
	up := h.ByID[c.Parent]
	for h.isInnerStep(up, c) {
		c, up = up, h.ByID[up.Parent]
	}
	return up
}

// Line returns a checkpoint and its ancestors, newest first.
func (h *History) Line(at segno.CommitID) (line []*segno.Checkpoint) {
	for c := h.ByID[at]; c != nil; c = h.ByID[c.Parent] {
		line = append(line, c)
	}
	return line
}

// ParentWithFiles returns the checkpoint against which the files of c are compared, or nil. It skips the steps of a
// session, which have no files.
func (h *History) ParentWithFiles(c *segno.Checkpoint) *segno.Checkpoint {
	if linked := h.ByID[c.ID]; linked != nil {
		c = linked // linked has a checkpoint as its parent
	}
	parent := h.ByID[c.Parent]
	for parent != nil && parent.Kind == segno.CheckpointStep && parent.Tree().IsZero() {
		parent = h.ByID[parent.Parent]
	}
	return parent
}
