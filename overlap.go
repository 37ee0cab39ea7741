package segno

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Why undo leaves a path of a turn as it is, though nothing changed it since.
const (
	whyDoubt   = "changed when the turn was no longer at work, or not alone"
	whyBoth    = "an overlapping turn of another thread changed it, too"
	whyUnnamed = "another thread was at work and this turn's tools did not name it"
)

// contested returns why a path of a turn may hold someone else's work, or "".
func (m *Mover) contested(ctx context.Context, turn *Checkpoint) (func(path string) string, error) {
	entries, err := m.entriesOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	doubt := doubtful(entries)
	theirs := func(string) bool { return false }
	if turn.Shared {
		if theirs, err = m.namedByOthers(ctx, turn, began(entries, turn)); err != nil {
			return nil, err
		}
	}
	return func(path string) string {
		switch {
		case doubt[path]:
			return whyDoubt
		case theirs(path):
			return whyBoth
		}
		return ""
	}, nil
}

// began returns when a turn began, from its entries: the first is its prompt.
func began(entries []Entry, turn *Checkpoint) time.Time {
	if len(entries) > 0 && !entries[0].Time.IsZero() {
		return entries[0].Time
	}
	return turn.Time
}

// namedByOthers returns whether the tools of a turn of another thread that overlapped
// with this one named a path. Tools that only read do not count.
func (m *Mover) namedByOthers(ctx context.Context, turn *Checkpoint, start time.Time) (func(path string) bool, error) {
	var said strings.Builder
	const most = 1024 // checkpoints to look at, newest first
	for c, err := range m.Store.Checkpoints(ctx, CheckpointQuery{Workspace: m.Workspace.ID(), Limit: most}) {
		if err != nil {
			return nil, err
		}
		if !c.endsTurn() || c.Thread == turn.Thread || c.Time.Before(start) {
			continue
		}
		entries, err := m.entriesOf(ctx, &c)
		if err != nil {
			return nil, err
		}
		if began(entries, &c).Before(turn.Time) {
			collectCalls(&said, entries)
		}
	}
	turns, err := m.Spool.Turns(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		if t.Workspace != m.Workspace.ID() || t.Thread == turn.Thread || !t.Start.Before(turn.Time) {
			continue
		}
		entries, _, err := m.Spool.Entries(ctx, t.Key)
		if err != nil {
			return nil, err
		}
		collectCalls(&said, entries)
	}
	return naming(said.String(), m.Workspace.Root()), nil
}

// collectCalls writes what the calls of tools that can write were asked to do.
func collectCalls(to *strings.Builder, entries []Entry) {
	for _, e := range entries {
		var in any
		if e.Kind == EntryIntent && !onlyReads(e.Name) && json.Unmarshal(e.Body, &in) == nil {
			collect(to, in)
		}
	}
}
