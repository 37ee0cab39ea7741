package chat

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Clear begins an empty line: no messages, todos or state. It is a turn of its own,
// so that undo takes it back. The files of the directory stay as they are.
func (c *Chat) Clear(ctx context.Context) (Status, error) {
	head, err := c.head(ctx)
	if err != nil {
		return Status{}, err
	}
	if at, err := c.agent.Running(ctx, c.Session); err != nil || at {
		return Status{}, cmp.Or(err, c.busy())
	}
	line, err := c.Store.Load(ctx, head.Head, segno.Window{Entries: true})
	if err != nil {
		return Status{}, err
	}
	state, err := segno.Fold(line)
	if err != nil {
		return Status{}, err
	}
	turn, now := head.Turn+1, c.Now()
	entries, err := emptied(state, turn, now, c.Actor)
	if err != nil {
		return Status{}, err
	}
	empty := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch, Entries: entries,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: turn, Step: state.Step, Time: now, Agent: Name, Prompt: clearPrompt}}
	if c.Timeline != nil {
		_, err = c.Timeline.CommitStep(ctx, empty, "")
	} else {
		_, err = c.Store.Commit(ctx, empty)
	}
	if err != nil {
		return Status{}, err
	}
	return c.Status(ctx)
}

const clearPrompt = "/session clear"

// emptied are the entries after which nothing is left of a state.
func emptied(s *segno.State, turn int, now time.Time, actor string) (entries []segno.Entry, err error) {
	add := func(e segno.Entry) {
		e.Turn, e.Time = turn, now
		entries = append(entries, e)
	}
	add(segno.Entry{Kind: segno.EntryKeep, Body: []byte("0")})
	for _, key := range slices.Sorted(maps.Keys(s.Values)) {
		add(segno.Entry{Kind: segno.EntryState, Name: key})
	}
	for _, i := range s.Interrupts {
		e, err := segno.Decision{Interrupt: i.ID, Kind: segno.Reject, Text: "the session was cleared", Actor: actor, Time: now}.Entry()
		if err != nil {
			return nil, err
		}
		add(e)
	}
	for _, x := range s.Unknown {
		add(segno.Entry{Kind: segno.EntryResult, ID: x.ID, Name: x.Name, Body: []byte(`{"unknown":true}`)})
	}
	return entries, nil
}
