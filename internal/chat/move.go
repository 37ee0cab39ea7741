package chat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/history/idprefix"
)

// move moves the session, and returns its status with the files that the move left unchanged.
func (c *Chat) move(ctx context.Context, move func() (agent.Status, error)) (Status, error) {
	if _, _, err := c.line(ctx); err != nil {
		return Status{}, err
	}
	if err := c.checkPlace(); err != nil {
		return Status{}, err
	}
	moved, err := move()
	if err != nil {
		return Status{}, err
	}
	s, err := c.Status(ctx)
	s.Conflicts, s.Kept, s.Lost = moved.Conflicts, moved.Kept, moved.Lost
	return s, err
}

func (c *Chat) restore(ctx context.Context, to segno.CommitID) (Status, error) {
	return c.move(ctx, func() (agent.Status, error) { return c.agent.Restore(ctx, c.Session, to) })
}

// rewind moves the session to the end of the turn before the given one.
func (c *Chat) rewind(ctx context.Context, turn string) (Status, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(turn, "t"))
	if err != nil || n < 1 {
		return Status{}, segno.Errorf(segno.KindInvalid, "edit", turn, "unknown turn").WithHint("/checkpoints lists them")
	}
	cp, err := c.find(ctx, fmt.Sprintf("t%d", n))
	if err != nil {
		return Status{}, err
	}
	line, err := c.Store.Load(ctx, cp.ID, segno.Window{})
	if err != nil {
		return Status{}, err
	}
	for _, before := range slices.Backward(line.Commits) {
		if before.Checkpoint != nil && before.Checkpoint.Turn < n {
			return c.restore(ctx, before.ID)
		}
	}
	return Status{}, segno.Errorf(segno.KindNotFound, "edit", turn, "no checkpoint precedes the turn").WithHint("/checkpoints lists them")
}

// Fork creates a session at the head of this one, and switches to it. If name is "", the new
// name is this session's with a number. Both sessions work on the same files.
func (c *Chat) Fork(ctx context.Context, name string) (Status, error) {
	at, err := c.newestCheckpoint(ctx)
	if err != nil {
		return Status{}, err
	}
	return c.ForkAt(ctx, at.ID, name)
}

// ForkAt creates a session at a checkpoint of this one, and switches to it.
func (c *Chat) ForkAt(ctx context.Context, at segno.CommitID, name string) (Status, error) {
	unused := cmp.Or(name, c.Session+"-2")
	err := c.checkUnused(ctx, "fork", unused)
	for n := 3; name == "" && segno.KindOf(err) == segno.KindConflict; n++ {
		unused = fmt.Sprintf("%s-%d", c.Session, n)
		err = c.checkUnused(ctx, "fork", unused)
	}
	if err == nil {
		_, err = c.agent.Fork(ctx, at, unused)
	}
	if err != nil {
		return Status{}, err
	}
	c.Session = unused
	return c.Status(ctx)
}

// clear commits a turn that empties the conversation, the todos and the state. Undo reverts
// it. The files of the directory stay.
func (c *Chat) clear(ctx context.Context) error {
	head, state, err := c.state(ctx)
	if err != nil {
		return err
	}
	if s, err := c.agent.Status(ctx, c.Session); err != nil || s.Phase == agent.PhaseRunning {
		return cmp.Or(err, c.errRunning())
	}
	turn, now := head.Turn+1, c.Now()
	entries := []segno.Entry{{Kind: segno.EntryKeep, Body: []byte("0")}}
	for _, key := range slices.Sorted(maps.Keys(state.Values)) {
		entries = append(entries, segno.Entry{Kind: segno.EntryState, Name: key})
	}
	for _, i := range state.Interrupts {
		e, err := segno.Decision{Interrupt: i.ID, Kind: segno.Reject, Text: "the session was cleared", Actor: c.Actor, Time: now}.Entry()
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	for _, x := range state.Unknown {
		entries = append(entries, segno.Entry{Kind: segno.EntryResult, ID: x.ID, Name: x.Name, Body: []byte(`{"unknown":true}`)})
	}
	for i := range entries {
		entries[i].Turn, entries[i].Time = turn, now
	}
	empty := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Entries: entries,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: turn, Step: state.Step, Time: now, Agent: Name, Prompt: "/session clear"}}
	if c.Timeline != nil {
		_, err = c.Timeline.CommitStep(ctx, empty, "")
	} else {
		_, err = c.Store.Commit(ctx, empty)
	}
	return err
}

// checkpoint describes a checkpoint in a list.
type checkpoint struct {
	segno.Checkpoint
	pins   []string
	isHead bool
	onLine bool // it is the head or an ancestor of the head
}

// checkpoints returns the session's checkpoints on all lines, newest first.
func (c *Chat) checkpoints(ctx context.Context) (all []checkpoint, err error) {
	head, line, err := c.line(ctx)
	if err != nil {
		return nil, err
	}
	onLine := map[segno.CommitID]bool{}
	var at segno.CommitID
	for _, n := range line.Commits {
		if onLine[n.ID] = true; n.Checkpoint != nil {
			at = n.ID
		}
	}
	pins, err := c.pins(ctx)
	if err != nil {
		return nil, err
	}
	for cp, err := range c.Store.Checkpoints(ctx, segno.CheckpointQuery{Thread: head.Thread}) {
		if err != nil {
			return nil, err
		}
		all = append(all, checkpoint{Checkpoint: cp, pins: segno.PinNames(pins[cp.ID]), isHead: cp.ID == at, onLine: onLine[cp.ID]})
	}
	return all, nil
}

// pins returns the labels of pinned checkpoints.
func (c *Chat) pins(ctx context.Context) (map[segno.CommitID]string, error) {
	pins := map[segno.CommitID]string{}
	for cp, err := range c.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return nil, err
		}
		pins[cp.ID] = cp.Label
	}
	return pins, nil
}

// find returns the checkpoint with a name: a saved name, t3, @, @-, latest, or a prefix of an
// id.
func (c *Chat) find(ctx context.Context, name string) (*checkpoint, error) {
	all, err := c.checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	if i := indexOf(all, name); i >= 0 {
		return &all[i], nil
	}
	if i := slices.IndexFunc(all, func(cp checkpoint) bool { return slices.Contains(cp.pins, name) }); i >= 0 {
		return &all[i], nil
	}
	found, err := idprefix.Find(idprefix.Query{What: "checkpoint", Name: name, Hint: "/checkpoints lists them", Turns: true}, idprefix.Values(all),
		func(cp checkpoint) string { return string(cp.ID) })
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// indexOf returns the index of the checkpoint that a name describes by its position, or -1. tN
// is the end of a turn, preferably on the session's line. @ is the head, and each "-" after it
// goes one turn back.
func indexOf(all []checkpoint, name string) int {
	if number, ok := strings.CutPrefix(name, "t"); ok {
		turn, err := strconv.Atoi(number)
		if err != nil {
			return -1
		}
		return indexOfTurn(all, turn)
	}
	if name == "latest" {
		return slices.IndexFunc(all, func(cp checkpoint) bool { return cp.isStop() })
	}
	back, ok := strings.CutPrefix(name, "@")
	if !ok || strings.Trim(back, "-") != "" {
		return -1
	}
	left := len(back)
	for i := range all {
		cp := &all[i]
		if isNext := left == len(back) && cp.isHead || left < len(back) && cp.isStop(); !cp.onLine || !isNext {
			continue
		}
		if left == 0 {
			return i
		}
		left--
	}
	return -1
}

func indexOfTurn(all []checkpoint, turn int) int {
	best := -1
	for i := range all {
		switch cp := &all[i]; {
		case cp.Turn != turn:
		case cp.onLine && cp.isStop():
			return i
		case best < 0, cp.isStop() && !all[best].isStop():
			best = i
		}
	}
	return best
}

// isStop reports whether undo and redo stop at a checkpoint.
func (cp *checkpoint) isStop() bool {
	return cp.Kind == segno.CheckpointTurn || cp.Kind == segno.CheckpointBase
}

// newestCheckpoint returns the newest checkpoint at or above the head.
func (c *Chat) newestCheckpoint(ctx context.Context) (*segno.Checkpoint, error) {
	head, line, err := c.line(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil {
			return n.Checkpoint, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "find checkpoint", string(head.Head), nil)
}

// save pins the session's newest checkpoint under a name, and returns both. The default is a
// name that the checkpoint already has, or else a name with the turn's number.
func (c *Chat) save(ctx context.Context, name string) (segno.CommitID, string, error) {
	at, err := c.newestCheckpoint(ctx)
	if err != nil {
		return "", "", err
	}
	pins, err := c.pins(ctx)
	if err != nil {
		return "", "", err
	}
	if names := segno.PinNames(pins[at.ID]); name == "" && len(names) > 0 {
		name = names[0]
	}
	name = cmp.Or(name, fmt.Sprintf("%s-turn-%d", c.Session, at.Turn))
	if isReserved(name) {
		return "", "", segno.Errorf(segno.KindInvalid, "save session", name, "names such as t1 and latest are reserved").WithHint("choose a name that is not t1, latest, @… or …-")
	}
	for id, label := range pins {
		if slices.Contains(segno.PinNames(label), name) && id != at.ID {
			return "", "", segno.Errorf(segno.KindConflict, "save session", name, "another checkpoint has this name").WithHint("choose another name")
		}
	}
	if c.Timeline != nil {
		return at.ID, name, c.Timeline.Pin(ctx, at.ID, fmt.Sprintf("t%d", at.Turn), name)
	}
	// The newest checkpoint of a fork may belong to another thread, which then has the pin.
	owner, err := c.Store.Head(ctx, at.Thread)
	if err == nil {
		_, err = c.Store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: owner.Thread, Expect: owner.Head, Epoch: owner.Epoch,
			Pin: &segno.Pin{Checkpoint: at.ID, Name: segno.WithPinName(pins[at.ID], name)}})
	}
	return at.ID, name, err
}

// isReserved reports whether a name is not allowed for a checkpoint, because find gives it
// another meaning.
func isReserved(name string) bool {
	number, isTurn := strings.CutPrefix(name, "t")
	return name == "latest" || len(segno.PinNames(name)) > 1 || strings.HasPrefix(name, "@") || strings.HasPrefix(name, "-") ||
		strings.HasSuffix(name, "-") || isTurn && number != "" && strings.Trim(number, "0123456789") == ""
}
