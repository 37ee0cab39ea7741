package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/timeline"
)

// Undo takes the session n turns back, and the files with it.
func (c *Chat) Undo(ctx context.Context, n int) (Status, error) {
	return c.moved(ctx, func() (agent.Where, error) { return c.agent.Undo(ctx, c.Session, n) })
}

// Redo takes it n turns forward again.
func (c *Chat) Redo(ctx context.Context, n int) (Status, error) {
	return c.moved(ctx, func() (agent.Where, error) { return c.agent.Redo(ctx, c.Session, n) })
}

// Restore takes it to the checkpoint that a name means: a saved one, t3, @, @-, latest,
// or an id's first letters.
func (c *Chat) Restore(ctx context.Context, name string) (Status, error) {
	cp, err := c.named(ctx, name)
	if err != nil {
		return Status{}, err
	}
	return c.moved(ctx, func() (agent.Where, error) { return c.agent.Restore(ctx, c.Session, cp.ID) })
}

// Rewind takes it to where it stood before a turn, which is named by its number.
func (c *Chat) Rewind(ctx context.Context, turn string) (Status, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(turn, "t"))
	if err != nil || n < 1 {
		return Status{}, segno.Errorf(segno.KindInvalid, "edit", turn, "unknown turn").WithHint("/checkpoints lists them")
	}
	cp, err := c.named(ctx, fmt.Sprintf("t%d", n))
	if err != nil {
		return Status{}, err
	}
	line, err := c.Store.Load(ctx, cp.ID, segno.Window{})
	if err != nil {
		return Status{}, err
	}
	for _, at := range slices.Backward(line.Commits) {
		if at.Checkpoint != nil && at.Checkpoint.Turn < n {
			return c.moved(ctx, func() (agent.Where, error) { return c.agent.Restore(ctx, c.Session, at.ID) })
		}
	}
	return Status{}, segno.Errorf(segno.KindNotFound, "edit", turn, "no checkpoint precedes the turn").WithHint("/checkpoints lists them")
}

func (c *Chat) moved(ctx context.Context, move func() (agent.Where, error)) (Status, error) {
	if _, err := c.head(ctx); err != nil {
		return Status{}, err
	}
	if err := c.present(); err != nil {
		return Status{}, err
	}
	where, err := move()
	if err != nil {
		return Status{}, err
	}
	s, err := c.Status(ctx)
	s.Conflicts, s.Kept, s.Lost = where.Conflicts, where.Kept, where.Lost
	return s, err
}

// head is where the session's thread stands.
func (c *Chat) head(ctx context.Context) (segno.Head, error) {
	head, err := c.Store.Head(ctx, segno.ThreadID(c.Session))
	if segno.KindOf(err) == segno.KindNotFound {
		err = noSession(c.Session)
	}
	return head, err
}

// Fork begins a session where this one stands, and switches to it. Both work on the
// same files.
func (c *Chat) Fork(ctx context.Context, name string) (Status, error) {
	head, err := c.head(ctx)
	if err != nil {
		return Status{}, err
	}
	at, err := c.checkpoint(ctx, head.Head)
	if err != nil {
		return Status{}, err
	}
	return c.ForkAt(ctx, at.ID, name)
}

// ForkAt begins a session at a checkpoint of this one, and switches to it.
func (c *Chat) ForkAt(ctx context.Context, at segno.CommitID, name string) (Status, error) {
	if name == "" {
		var err error
		if name, err = c.free(ctx); err != nil {
			return Status{}, err
		}
	}
	if _, err := c.thread(ctx, name); segno.KindOf(err) != segno.KindNotFound {
		return Status{}, cmp.Or(err, error(segno.Errorf(segno.KindConflict, "fork", name, "there is one of that name").WithHint("choose another name")))
	}
	if _, err := c.agent.Fork(ctx, at, name); err != nil {
		return Status{}, err
	}
	c.Session = name
	return c.Status(ctx)
}

// free is the session's name with a number that no other has.
func (c *Chat) free(ctx context.Context) (string, error) {
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s-%d", c.Session, n)
		if _, err := c.thread(ctx, name); segno.KindOf(err) == segno.KindNotFound {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// Checkpoint is what a list tells of a checkpoint.
type Checkpoint struct {
	ID     segno.CommitID       `json:"id"`
	Kind   segno.CheckpointKind `json:"kind"`
	Turn   int                  `json:"turn"`
	Step   int                  `json:"step"`
	Prompt string               `json:"prompt"`
	Time   time.Time            `json:"time"`
	Pins   []string             `json:"pins,omitempty"`
	Head   bool                 `json:"head"`
	Line   bool                 `json:"line"` // the session stands on it or above it
}

// Checkpoints returns the session's checkpoints on all lines, newest first.
func (c *Chat) Checkpoints(ctx context.Context) (all []Checkpoint, err error) {
	head, err := c.head(ctx)
	if err != nil {
		return nil, err
	}
	line, err := c.Store.Load(ctx, head.Head, segno.Window{})
	if err != nil {
		return nil, err
	}
	on := map[segno.CommitID]bool{}
	var at segno.CommitID
	for _, n := range line.Commits {
		if on[n.ID] = true; n.Checkpoint != nil {
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
		all = append(all, Checkpoint{ID: cp.ID, Kind: cp.Kind, Turn: cp.Turn, Step: cp.Step, Prompt: timeline.Title(cp.Prompt), Time: cp.Time,
			Pins: segno.PinNames(pins[cp.ID]), Head: cp.ID == at, Line: on[cp.ID]})
	}
	return all, nil
}

// nameable reports whether a checkpoint can be told by a name.
func nameable(name string) bool {
	turn, _ := strings.CutPrefix(name, "t")
	return name != "latest" && len(segno.PinNames(name)) <= 1 && !strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-") &&
		(turn == name || turn == "" || strings.Trim(turn, "0123456789") != "")
}

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

// named returns the checkpoint a person names.
func (c *Chat) named(ctx context.Context, name string) (*Checkpoint, error) {
	all, err := c.Checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	var found *Checkpoint
	if i := placed(all, name); i >= 0 {
		return &all[i], nil
	}
	for i := range all {
		cp := &all[i]
		if slices.Contains(cp.Pins, name) {
			return cp, nil
		}
		if name != "" && strings.HasPrefix(string(cp.ID), name) {
			if found != nil {
				return nil, segno.Errorf(segno.KindInvalid, "find checkpoint", name, "more than one id begins so").WithHint("give more letters")
			}
			found = cp
		}
	}
	if found == nil {
		return nil, segno.NewError(segno.KindNotFound, "find checkpoint", name, nil).WithHint("/checkpoints lists them")
	}
	return found, nil
}

// placed is the index of the checkpoint that a name means by its place, or -1: t3 is a
// turn, on the session's line if it is there; @ is where it stands, each - a turn before.
func placed(all []Checkpoint, name string) int {
	if number, ok := strings.CutPrefix(name, "t"); ok {
		turn, err := strconv.Atoi(number)
		if err != nil {
			return -1
		}
		of := func(ok func(*Checkpoint) bool) int {
			return slices.IndexFunc(all, func(cp Checkpoint) bool { return cp.Turn == turn && ok(&cp) })
		}
		at := of(func(cp *Checkpoint) bool { return cp.Line && cp.stop() })
		if at < 0 {
			at = of((*Checkpoint).stop)
		}
		if at < 0 {
			at = of(func(*Checkpoint) bool { return true })
		}
		return at
	}
	if name == "latest" {
		return slices.IndexFunc(all, func(cp Checkpoint) bool { return cp.stop() })
	}
	back, ok := strings.CutPrefix(name, "@")
	if !ok || strings.Trim(back, "-") != "" {
		return -1
	}
	left := len(back)
	for i := range all {
		switch cp := &all[i]; {
		case !cp.Line:
		case left == len(back) && cp.Head, left < len(back) && cp.stop():
			if left == 0 {
				return i
			}
			left--
		}
	}
	return -1
}

// stop reports whether undo and redo stop at a checkpoint.
func (cp *Checkpoint) stop() bool {
	return cp.Kind == segno.CheckpointTurn || cp.Kind == segno.CheckpointBase
}

// checkpoint returns the newest checkpoint at or above a commit.
func (c *Chat) checkpoint(ctx context.Context, at segno.CommitID) (*segno.Checkpoint, error) {
	line, err := c.Store.Load(ctx, at, segno.Window{})
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil {
			return n.Checkpoint, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "find checkpoint", string(at), nil)
}

// Save pins the checkpoint the session stands on under a name, and returns both.
// Without a name it is called after its turn.
func (c *Chat) Save(ctx context.Context, name string) (segno.CommitID, string, error) {
	head, err := c.head(ctx)
	if err != nil {
		return "", "", err
	}
	at, err := c.checkpoint(ctx, head.Head)
	if err != nil {
		return "", "", err
	}
	pins, err := c.pins(ctx)
	if err != nil {
		return "", "", err
	}
	if was := segno.PinNames(pins[at.ID]); name == "" && len(was) > 0 {
		name = was[0]
	}
	name = cmp.Or(name, fmt.Sprintf("%s-turn-%d", c.Session, at.Turn))
	if !nameable(name) {
		return "", "", segno.Errorf(segno.KindInvalid, "save session", name, "the name means something else").WithHint("choose one that is not like t1, latest, @… or …-")
	}
	for id, pin := range pins {
		if slices.Contains(segno.PinNames(pin), name) && id != at.ID {
			return "", "", segno.Errorf(segno.KindConflict, "save session", name, "another checkpoint is saved under that name").WithHint("choose another name")
		}
	}
	if c.Timeline != nil {
		return at.ID, name, c.Timeline.Pin(ctx, at.ID, fmt.Sprintf("t%d", at.Turn), name)
	}
	// The checkpoint of a fork may be another thread's, and a pin is its thread's.
	owner, err := c.Store.Head(ctx, at.Thread)
	if err == nil {
		_, err = c.Store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: owner.Thread, Expect: owner.Head, Epoch: owner.Epoch,
			Pin: &segno.Pin{Checkpoint: at.ID, Name: segno.WithPinName(pins[at.ID], name)}})
	}
	return at.ID, name, err
}
