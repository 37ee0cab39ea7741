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
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
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
	at, err := c.find(ctx, "@")
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

// history reads the session's checkpoints on all lines.
func (c *Chat) history(ctx context.Context) (*history.History, error) {
	h, err := history.Read(ctx, c.Store, segno.ThreadID(c.Session))
	if segno.KindOf(err) == segno.KindNotFound {
		err = noSession(c.Session)
	}
	return h, err
}

func (c *Chat) find(ctx context.Context, name string) (*segno.Checkpoint, error) {
	h, err := c.history(ctx)
	if err != nil {
		return nil, err
	}
	return h.Find(name)
}

// save pins the session's newest checkpoint under a name, and returns both. The default is a
// name that the checkpoint already has, or else a name with the turn's number.
func (c *Chat) save(ctx context.Context, name string) (segno.CommitID, string, error) {
	h, err := c.history(ctx)
	if err != nil {
		return "", "", err
	}
	at, err := h.Find("@")
	if err != nil {
		return "", "", err
	}
	if name == "" {
		name = append(h.Pins[at.ID], fmt.Sprintf("%s-turn-%d", c.Session, at.Turn))[0]
	}
	if !history.IsPinName(name) {
		return "", "", segno.Errorf(segno.KindInvalid, "save session", name, "names such as t1 and latest are reserved").WithHint("choose a name that is not t1, latest, @… or …-")
	}
	tl := c.Timeline
	if tl == nil {
		tl = timeline.Open(timeline.Config{Store: c.Store, Now: c.Now})
	}
	return at.ID, name, tl.Pin(ctx, at.ID, printable.Label(at), name)
}
