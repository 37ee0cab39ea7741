package cli

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// history is a thread's checkpoints, newest first, all lines, and for a fork the
// ones it stands on.
type history struct {
	head segno.Head
	all  []segno.Checkpoint
	byID map[segno.CommitID]*segno.Checkpoint
	pins map[segno.CommitID][]string

	read    segno.Head              // the head as the store has it; join may change the other
	running map[segno.CommitID]bool // turns whose tasks go on in the background; see mark
}

// mark looks up which turns have ended while tasks of theirs go on.
func (h *history) mark(ctx context.Context, spool timeline.Spool) error {
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
	const most = 20 // a thread that moves at every look is read as it is
	for tries := 1; ; tries++ {
		h, err := readOnce(ctx, store, thread)
		if err != nil {
			return nil, err
		}
		now, err := store.Head(ctx, thread)
		if err != nil {
			return nil, err
		}
		if now.Head == h.read.Head && now.Tip == h.read.Tip || tries == most {
			return h, nil
		}
	}
}

func readOnce(ctx context.Context, store segno.Store, thread segno.ThreadID) (*history, error) {
	h := &history{byID: map[segno.CommitID]*segno.Checkpoint{}, pins: map[segno.CommitID][]string{}}
	var err error
	if h.head, err = store.Head(ctx, thread); err != nil {
		return nil, err
	}
	h.read = h.head
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
	if err := h.below(ctx, store, thread); err != nil {
		return nil, err
	}
	for i := range h.all {
		h.byID[h.all[i].ID] = &h.all[i]
	}
	if err := h.join(ctx, store); err != nil {
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

// below adds the checkpoints of other threads that a fork stands on.
func (h *history) below(ctx context.Context, store segno.Store, thread segno.ThreadID) error {
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

// join makes every checkpoint's parent a checkpoint, and what the thread stands on: a Go
// agent also commits what is none.
func (h *history) join(ctx context.Context, store segno.Store) error {
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

// folded is the history without the steps that their turn went on from. What stands
// on one stands on what is below it.
func (h *history) folded() []segno.Checkpoint {
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

// find returns the checkpoint a person names.
func (h *history) find(name string) (*segno.Checkpoint, error) {
	base := strings.TrimRight(name, "-")
	c, err := h.named(base)
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

func (h *history) named(name string) (*segno.Checkpoint, error) {
	switch {
	case name == "@":
		return h.standing(h.head.Head)
	case name == "latest":
		return h.standing(h.head.Tip)
	}
	if m := turnName.FindStringSubmatch(name); m != nil {
		n, err := strconv.Atoi(m[1])
		if c := h.turn(n); err == nil && c != nil {
			return c, nil
		}
	}
	for id, names := range h.pins {
		if slices.Contains(names, name) && h.byID[id] != nil {
			return h.byID[id], nil
		}
	}
	return h.prefixed(name)
}

func (h *history) standing(id segno.CommitID) (*segno.Checkpoint, error) {
	if c := h.byID[id]; c != nil {
		return c, nil
	}
	return nil, segno.Errorf(segno.KindCorrupt, "find checkpoint", string(id), "the head of the thread is a checkpoint that does not exist").WithHint("run 'segno check'")
}

// turn returns the checkpoint that ends turn n; 0 is the base.
func (h *history) turn(n int) *segno.Checkpoint {
	for i := range h.all {
		c := &h.all[i]
		if (n > 0 && c.Kind == segno.CheckpointTurn && c.Turn == n) || (n == 0 && c.Kind == segno.CheckpointBase) {
			return c
		}
	}
	return nil
}

func (h *history) prefixed(name string) (*segno.Checkpoint, error) {
	var found *segno.Checkpoint
	for i := range h.all {
		if !strings.HasPrefix(string(h.all[i].ID), name) {
			continue
		}
		if found != nil {
			return nil, segno.Errorf(segno.KindInvalid, "find checkpoint", name, "more than one id begins so").WithHint("give more letters")
		}
		found = &h.all[i]
	}
	if found == nil || name == "" {
		return nil, segno.NewError(segno.KindNotFound, "find checkpoint", name, nil).WithHint("run 'segno log' to see the checkpoints of this thread")
	}
	return found, nil
}

// checkpointNamed opens everything a verb with one checkpoint argument needs.
func (a *app) checkpointNamed(ctx context.Context, d *desk, name string) (*history, *segno.Checkpoint, error) {
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

// label is how a checkpoint is called in text: t4, or its kind and short id.
func label(c *segno.Checkpoint) string {
	if c.Kind == segno.CheckpointTurn {
		return "t" + strconv.Itoa(c.Turn)
	}
	return short(c.ID)
}

func short(id segno.CommitID) string {
	if len(id) != len(segno.NewID()) {
		return clean(string(id)) // somebody's own name
	}
	if len(id) > 6 {
		return string(id[:6])
	}
	return string(id)
}
