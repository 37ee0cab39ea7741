package history

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/idprefix"
)

// Find returns the checkpoint with a name that the user typed: @, latest, a turn, a pin, or the
// beginning of an id. Each "-" at the end means the parent.
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
		if c = h.ByID[c.Parent]; c == nil {
			return nil, segno.Errorf(segno.KindNotFound, "find checkpoint", name, "the thread has no earlier checkpoint").WithHint(logHint)
		}
	}
	return c, nil
}

const logHint = "run 'segno log' to see the checkpoints of this thread"

// byName resolves a name without "-". A turn's name comes before a pin, and a pin before an id.
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
	for id, names := range h.Pins {
		if slices.Contains(names, name) && h.ByID[id] != nil {
			return h.ByID[id], nil
		}
	}
	query := idprefix.Query{What: "checkpoint", Name: name, Hint: logHint, Turns: true}
	c, err := idprefix.Find(query, idprefix.Values(h.All), func(c segno.Checkpoint) string { return string(c.ID) })
	return h.ByID[c.ID], err
}

// byTurn returns the checkpoint that ends turn n. t0 is the base, for every verb that takes a checkpoint.
func (h *History) byTurn(n int) *segno.Checkpoint {
	for i := range h.All {
		c := &h.All[i]
		if (n > 0 && c.Kind == segno.CheckpointTurn && c.Turn == n) || (n == 0 && c.Kind == segno.CheckpointBase) {
			return c
		}
	}
	return nil
}
