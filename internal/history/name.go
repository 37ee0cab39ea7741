package history

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/internal/history/turns"
)

// Find returns the checkpoint with a name that the user typed: @, latest, a turn, a step of a Go agent's turn, a pin, or the
// beginning of an id. The error is a [PointError] for a point inside a turn that is not a checkpoint. Each "-" at the end means the parent, as the log shows it: steps inside a turn do not count.
func (h *History) Find(name string) (*segno.Checkpoint, error) {
	base := strings.TrimRight(name, "-")
	c, err := h.byName(base)
	if segno.KindOf(err) == segno.KindNotFound && base != name {
		err = segno.NewError(segno.KindNotFound, "find checkpoint", name, nil).WithHint(segno.HintOf(err))
	}
	if err != nil {
		return nil, err
	}
	for range len(name) - len(base) {
		if c = h.parent(c); c == nil {
			return nil, segno.Errorf(segno.KindNotFound, "find checkpoint", name, "the thread has no earlier checkpoint").WithHint(logHint)
		}
	}
	return c, nil
}

const logHint = "run 'segno log' to see the checkpoints of this thread"

// PointError is the cause of the error for the name of a point inside a turn, such as t7.3. The point is the end of a call of
// Turn, and no checkpoint.
type PointError struct {
	Turn *segno.Checkpoint
	Call int // counts from 1
}

func (e *PointError) Error() string {
	return "it is a point inside a turn, and only its files may be known"
}

// byName resolves a name without "-". A turn's name comes before a pin, and a pin before a point inside a turn and an id.
func (h *History) byName(name string) (*segno.Checkpoint, error) {
	if id, ok := map[string]segno.CommitID{"@": h.Head.Head, "latest": h.Head.Tip}[name]; ok {
		if c := h.ByID[id]; c != nil {
			return c, nil
		}
		return nil, segno.Errorf(segno.KindCorrupt, "find checkpoint", string(id), "the head of the thread is a checkpoint that does not exist").
			WithHint("run 'segno check'")
	}
	if idprefix.IsTurnName(name) {
		n, err := strconv.Atoi(name[1:])
		if c := h.byTurn(n); err == nil && c != nil {
			return c, nil
		}
	}
	for i := range h.All {
		if slices.Contains(h.Pins[h.All[i].ID], name) {
			return &h.All[i], nil
		}
	}
	if turn, n, ok := idprefix.PointName(name); ok {
		return h.byPoint(name, turn, n)
	}
	query := idprefix.Query{What: "checkpoint", Name: name, Hint: logHint, Turns: true}
	c, err := idprefix.Find(query, idprefix.Values(h.All), func(c segno.Checkpoint) string { return string(c.ID) })
	if segno.KindOf(err) == segno.KindNotFound {
		if now := h.amendmentOf(query); now != nil {
			return now, nil
		}
	}
	return h.ByID[c.ID], err
}

// amendmentOf returns the checkpoint that amends the one with the typed id, or nil. segno may have printed the id before the amendment.
func (h *History) amendmentOf(query idprefix.Query) *segno.Checkpoint {
	id, err := idprefix.Find(query, idprefix.Values(slices.Collect(maps.Keys(h.amendments))), func(id segno.CommitID) string { return string(id) })
	for range h.amendments {
		if h.ByID[id] != nil || err != nil {
			break
		}
		id = h.amendments[id]
	}
	return h.ByID[id]
}

// Checkpoint returns the checkpoint with an id, in any thread, or nil for a commit without one. If a collection dropped it because
// another one amends it, Checkpoint returns that one.
func Checkpoint(ctx context.Context, store segno.Store, id segno.CommitID) (*segno.Checkpoint, error) {
	line, err := store.Load(ctx, id, segno.Window{Last: 1})
	if err == nil {
		return line.Commits[len(line.Commits)-1].Checkpoint, nil
	}
	if segno.KindOf(err) != segno.KindNotFound {
		return nil, err
	}
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{}) {
		if err != nil {
			return nil, err
		}
		if c.Amends == id {
			return &c, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "find checkpoint", string(id), nil).WithHint(logHint)
}

// byTurn returns the checkpoint that ends turn n, or the newest step of a turn that has no end. t0 is the base, for
// every verb that takes a checkpoint. A pull can bring another line with a turn of the same number: the one on the line of the head comes first, as for undo,
// and then the one that redo can reach.
func (h *History) byTurn(n int) *segno.Checkpoint {
	for _, at := range []segno.CommitID{h.Head.Head, h.Head.Tip} {
		if c := turnOf(slices.Values(h.Line(at)), n); c != nil {
			return c
		}
	}
	return turnOf(func(yield func(*segno.Checkpoint) bool) {
		for i := range h.All {
			if !yield(&h.All[i]) {
				return
			}
		}
	}, n)
}

// turnOf returns the checkpoint that ends turn n, or the newest step of the turn. all are newest first.
func turnOf(all iter.Seq[*segno.Checkpoint], n int) (step *segno.Checkpoint) {
	for c := range all {
		switch {
		case n == 0 && c.Kind == segno.CheckpointBase, n > 0 && c.Kind == segno.CheckpointTurn && c.Turn == n:
			return c
		case n > 0 && c.Kind == segno.CheckpointStep && c.Turn == n && step == nil:
			step = c
		}
	}
	return step
}

// byPoint resolves the name of a point inside a turn. Each call of an agent with a session is a point; that is the error. For
// a Go agent, the point n is the checkpoint of its n-th step, because all calls of a step are committed together.
func (h *History) byPoint(name, turn string, n int) (*segno.Checkpoint, error) {
	c, err := h.byName(turn)
	if err != nil {
		return nil, err
	}
	if !turns.IsOfGoAgent(c) {
		return nil, segno.NewError(segno.KindRefused, "find checkpoint", name, &PointError{c, n}).
			WithHint("'segno restore', 'segno diff' and 'segno cat' take it")
	}
	line, before := h.Line(c.ID), 0
	for _, up := range line {
		if up.Turn < c.Turn {
			before = up.Step
			break
		}
	}
	for _, up := range line {
		if up.Turn == c.Turn && up.Step == before+n {
			return up, nil
		}
	}
	return nil, segno.Errorf(segno.KindNotFound, "find checkpoint", name, "the turn has %d steps", c.Step-before).
		WithHint("run 'segno show " + turn + "' to see its calls")
}

// IsPinName reports whether a name is allowed for a pin. [History.Find] gives other names a meaning.
func IsPinName(name string) bool {
	_, _, isPoint := idprefix.PointName(name)
	return name == strings.TrimSpace(name) && len(segno.PinNames(name)) == 1 && !idprefix.IsTurnName(name) && !isPoint && name != "latest" &&
		!strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
}
