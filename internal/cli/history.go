package cli

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/idprefix"
	"github.com/dalsegno/segno/internal/printable"
	"github.com/dalsegno/segno/timeline"
)

// history is a thread's checkpoints, newest first, on all lines, and for a fork also
// the ancestors on other threads.
type history struct {
	head segno.Head
	all  []segno.Checkpoint
	byID map[segno.CommitID]*segno.Checkpoint
	pins map[segno.CommitID][]string

	storedHead segno.Head              // the head in the store, before linkParents changed it
	running    map[segno.CommitID]bool // the turns with background tasks that still run; see findRunning
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

// readHistory reads a thread's checkpoints. If another process moves or amends the head in the
// meantime, the head that was read first may not be in the list, so readHistory starts again.
func readHistory(ctx context.Context, store segno.Store, thread segno.ThreadID) (*history, error) {
	const most = 20 // the result of the last try is used even if the thread moved again
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

// readHistoryOnce reads the checkpoints of a thread. A checkpoint that a later one amends is left
// out: the later one replaces it.
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
func (h *history) linkParents(ctx context.Context, store segno.Store) (err error) {
	below := map[segno.CommitID]segno.CommitID{} // the nearest checkpoint of each commit that was read
	nearest := func(id segno.CommitID) (segno.CommitID, error) {
		for _, leaf := range []segno.CommitID{h.head.Tip, id} { // the line of the tip has most of them
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
	for i := range h.all {
		c := &h.all[i]
		if c.Parent == "" || h.byID[c.Parent] != nil {
			continue
		}
		if c.Parent, err = nearest(c.Parent); err != nil {
			return err
		}
	}
	for _, at := range []*segno.CommitID{&h.head.Head, &h.head.Tip} {
		if *at == "" || h.byID[*at] != nil {
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

// withoutInnerSteps is the history without the steps that a later checkpoint of the same
// turn follows. The children of an omitted step get the step's parent.
func (h *history) withoutInnerSteps() []segno.Checkpoint {
	wentOn := map[segno.CommitID]bool{}
	for i := range h.all {
		c := &h.all[i]
		up := h.byID[c.Parent]
		if up != nil && up.Kind == segno.CheckpointStep && up.Turn == c.Turn && up.ID != h.head.Head && len(h.pins[up.ID]) == 0 {
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

// find returns the checkpoint with a name that the user typed: @, latest, a turn, a pin, or the
// beginning of an id. Each "-" at the end means the parent.
func (h *history) find(name string) (*segno.Checkpoint, error) {
	base := strings.TrimRight(name, "-")
	c, err := h.byName(base)
	if err != nil {
		return nil, err
	}
	for range len(name) - len(base) {
		if c = h.byID[c.Parent]; c == nil {
			return nil, segno.Errorf(segno.KindNotFound, "find checkpoint", name, "the thread has no earlier checkpoint").WithHint(logHint)
		}
	}
	return c, nil
}

const logHint = "run 'segno log' to see the checkpoints of this thread"

// byName resolves a name without "-". A turn's name comes before a pin, and a pin before an id.
func (h *history) byName(name string) (*segno.Checkpoint, error) {
	if id, ok := map[string]segno.CommitID{"@": h.head.Head, "latest": h.head.Tip}[name]; ok {
		if c := h.byID[id]; c != nil {
			return c, nil
		}
		return nil, segno.Errorf(segno.KindCorrupt, "find checkpoint", string(id), "the head of the thread is a checkpoint that does not exist").
			WithHint("run 'segno check'")
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
	query, all := idprefix.Query{What: "checkpoint", Name: name, Hint: logHint}, h.all
	if turnName.MatchString(name) && len(name) < shortID {
		all = nil // the user means a turn that is not there, and no id that happens to begin like it
	}
	c, err := idprefix.Find(query, idprefix.Values(all), func(c segno.Checkpoint) string { return string(c.ID) })
	return h.byID[c.ID], err
}

// byTurn returns the checkpoint that ends turn n. t0 is the base, for every verb that takes a checkpoint.
func (h *history) byTurn(n int) *segno.Checkpoint {
	for i := range h.all {
		c := &h.all[i]
		if (n > 0 && c.Kind == segno.CheckpointTurn && c.Turn == n) || (n == 0 && c.Kind == segno.CheckpointBase) {
			return c
		}
	}
	return nil
}

// history reads the history of the thread the command works on.
func (a *app) history(ctx context.Context, d *openWorkspace) (*history, error) {
	thread, err := a.threadID(ctx, d)
	if err != nil {
		return nil, err
	}
	return readHistory(ctx, d.store, thread)
}

// checkpointNamed returns the checkpoint that a verb's argument names, and the thread's history.
func (a *app) checkpointNamed(ctx context.Context, d *openWorkspace, name string) (*history, *segno.Checkpoint, error) {
	h, err := a.history(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	c, err := h.find(name)
	return h, c, err
}

// label is the name of a checkpoint in text: "t4" for a turn, else its short id.
func label(c *segno.Checkpoint) string { return printable.Label(c) }

// shortID is how many letters of an id segno prints.
const shortID = printable.ShortLength

// short is the first letters of an id that segno made, or the whole name that the user chose.
func short[ID ~string](id ID) string { return printable.Short(id) }
