package cli

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/idprefix"
	"github.com/dalsegno/segno/timeline"
)

// history is a thread's checkpoints, newest first, on all lines, and for a fork also
// the ancestors on other threads.
type history struct {
	head segno.Head
	all  []segno.Checkpoint
	byID map[segno.CommitID]*segno.Checkpoint
	pins map[segno.CommitID][]string

	storedHead segno.Head              // the head as the store has it; join may change the other
	running    map[segno.CommitID]bool // turns whose tasks go on in the background; see mark
}

// findRunning finds the turns that have ended while their background tasks still run.
func (h *history) findRunning(ctx context.Context, spool timeline.Spool) error {
	turns, err := spool.Turns(ctx)
	if err != nil {
		return err
	}
	h.running = map[segno.CommitID]bool{}
	for _, t := range turns {
		if t.Ended == "" {
			continue
		}
		entries, _, err := spool.Entries(ctx, t.Key)
		if err != nil {
			return err
		}
		h.running[t.Ended] = t.Awake || len(t.RunningTasks(entries)) > 0
	}
	return nil
}

// readHistory reads a thread's checkpoints. Another process may commit meanwhile, above
// all amend the head: then the head that was read first is no longer listed, and the
// history is read again.
func readHistory(ctx context.Context, store segno.Store, thread segno.ThreadID) (*history, error) {
	const most = 20 // after so many tries the last reading is used, though the thread moved again
	for tries := 1; ; tries++ {
		h, err := readHistoryOnce(ctx, store, thread)
		if err != nil {
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

func readHistoryOnce(ctx context.Context, store segno.Store, thread segno.ThreadID) (*history, error) {
	h := &history{byID: map[segno.CommitID]*segno.Checkpoint{}, pins: map[segno.CommitID][]string{}}
	var err error
	if h.head, err = store.Head(ctx, thread); err != nil {
		return nil, err
	}
	h.storedHead = h.head
	amended := map[segno.CommitID]bool{}
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		if err != nil {
			return nil, err
		}
		if c.Amends != "" {
			amended[c.Amends] = true
		}
		if !amended[c.ID] {
			h.all = append(h.all, c)
		}
	}
	if err := h.readForkAncestors(ctx, store, thread); err != nil {
		return nil, err
	}
	for i := range h.all {
		h.byID[h.all[i].ID] = &h.all[i]
	}
	if err := h.linkParents(ctx, store); err != nil {
		return nil, err
	}
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return nil, err
		}
		h.pins[c.ID] = segno.PinNames(c.Label)
	}
	return h, nil
}

// readForkAncestors adds the checkpoints of other threads that are ancestors of a fork.
func (h *history) readForkAncestors(ctx context.Context, store segno.Store, thread segno.ThreadID) error {
	if len(h.all) == 0 || h.all[len(h.all)-1].Parent == "" {
		return nil
	}
	line, err := store.Load(ctx, h.all[len(h.all)-1].Parent, segno.Window{})
	if err != nil {
		return err
	}
	for i := len(line.Commits) - 1; i >= 0; i-- {
		if c := line.Commits[i].Checkpoint; c != nil && c.Thread != thread {
			h.all = append(h.all, *c)
		}
	}
	return nil
}

// linkParents replaces each parent, the head and the tip by the nearest checkpoint at or below
// it, because a Go agent also makes commits that are not checkpoints.
func (h *history) linkParents(ctx context.Context, store segno.Store) error {
	above := map[segno.CommitID]segno.CommitID{}
	learn := func(at segno.CommitID) error {
		line, err := store.Load(ctx, at, segno.Window{})
		if err != nil {
			return err
		}
		var newest segno.CommitID
		for i := range line.Commits {
			if n := &line.Commits[i]; n.Checkpoint != nil {
				newest = n.ID
			}
			above[line.Commits[i].ID] = newest
		}
		return nil
	}
	for i := range h.all {
		c := &h.all[i]
		if c.Parent == "" || h.byID[c.Parent] != nil {
			continue
		}
		for _, at := range []segno.CommitID{h.head.Tip, c.Parent} {
			if _, known := above[c.Parent]; !known {
				if err := learn(at); err != nil {
					return err
				}
			}
		}
		c.Parent = above[c.Parent]
	}
	for _, at := range []*segno.CommitID{&h.head.Head, &h.head.Tip} {
		if *at == "" || h.byID[*at] != nil {
			continue
		}
		if err := learn(*at); err != nil && segno.KindOf(err) != segno.KindNotFound {
			return err
		}
		if c := above[*at]; c != "" {
			*at = c
		}
	}
	return nil
}

// withoutInnerSteps is the history without the steps that a later checkpoint of the same
// turn follows. The children of an omitted step get the step's parent.
func (h *history) withoutInnerSteps() []segno.Checkpoint {
	wentOn := map[segno.CommitID]bool{}
	for i := range h.all {
		c := &h.all[i]
		if up := h.byID[c.Parent]; up != nil && up.Kind == segno.CheckpointStep && up.Turn == c.Turn && up.ID != h.head.Head && len(h.pins[up.ID]) == 0 {
			wentOn[up.ID] = true
		}
	}
	shown := make([]segno.Checkpoint, 0, len(h.all))
	for _, c := range h.all {
		if wentOn[c.ID] {
			continue
		}
		for wentOn[c.Parent] {
			c.Parent = h.byID[c.Parent].Parent
		}
		shown = append(shown, c)
	}
	return shown
}

var turnName = regexp.MustCompile(`^t([0-9]+)$`)

// find returns the checkpoint that the user names.
func (h *history) find(name string) (*segno.Checkpoint, error) {
	base := strings.TrimRight(name, "-")
	c, err := h.byName(base)
	if err != nil {
		return nil, err
	}
	for range len(name) - len(base) {
		up := h.byID[c.Parent]
		if up == nil {
			return nil, segno.Errorf(segno.KindNotFound, "find checkpoint", name, "the thread begins after it").WithHint("run 'segno log' to see the checkpoints of this thread")
		}
		c = up
	}
	return c, nil
}

func (h *history) byName(name string) (*segno.Checkpoint, error) {
	switch {
	case name == "@":
		return h.checkpoint(h.head.Head)
	case name == "latest":
		return h.checkpoint(h.head.Tip)
	}
	if m := turnName.FindStringSubmatch(name); m != nil {
		n, err := strconv.Atoi(m[1])
		if c := h.byTurn(n); err == nil && c != nil {
			return c, nil
		}
	}
	for id, names := range h.pins {
		if slices.Contains(names, name) && h.byID[id] != nil {
			return h.byID[id], nil
		}
	}
	return h.byPrefix(name)
}

func (h *history) checkpoint(id segno.CommitID) (*segno.Checkpoint, error) {
	if c := h.byID[id]; c != nil {
		return c, nil
	}
	return nil, segno.Errorf(segno.KindCorrupt, "find checkpoint", string(id), "the head of the thread is a checkpoint that does not exist").WithHint("run 'segno check'")
}

// byTurn returns the checkpoint that ends turn n; 0 is the base.
func (h *history) byTurn(n int) *segno.Checkpoint {
	for i := range h.all {
		c := &h.all[i]
		if (n > 0 && c.Kind == segno.CheckpointTurn && c.Turn == n) || (n == 0 && c.Kind == segno.CheckpointBase) {
			return c
		}
	}
	return nil
}

func (h *history) byPrefix(name string) (*segno.Checkpoint, error) {
	query := idprefix.Query{What: "checkpoint", Name: name, Hint: "run 'segno log' to see the checkpoints of this thread"}
	c, err := idprefix.Find(query, idprefix.Values(h.all), func(c segno.Checkpoint) string { return string(c.ID) })
	if err != nil {
		return nil, err
	}
	return h.byID[c.ID], nil
}

// checkpointNamed opens everything a verb with one checkpoint argument needs.
func (a *app) checkpointNamed(ctx context.Context, d *openWorkspace, name string) (*history, *segno.Checkpoint, error) {
	thread, err := a.threadID(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	h, err := readHistory(ctx, d.store, thread)
	if err != nil {
		return nil, nil, err
	}
	c, err := h.find(name)
	return h, c, err
}

// label is the name of a checkpoint in text: t4, or its kind and short id.
func label(c *segno.Checkpoint) string {
	if c.Kind == segno.CheckpointTurn {
		return "t" + strconv.Itoa(c.Turn)
	}
	return short(c.ID)
}

func short(id segno.CommitID) string {
	if len(id) != len(segno.NewID()) {
		return clean(string(id)) // a name that the user chose
	}
	if len(id) > 6 {
		return string(id[:6])
	}
	return string(id)
}
