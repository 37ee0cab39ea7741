package memory

import (
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// What the store returns and what it keeps are copies.

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func copyCheckpoint(c *segno.Checkpoint) *segno.Checkpoint {
	out := copyOf(c)
	if out == nil {
		return nil
	}
	out.Session, out.Workspace = copyOf(c.Session), copySnapshot(c.Workspace)
	out.State, out.World = copyOf(c.State), copyOf(c.World)
	out.Members, out.Meta = maps.Clone(c.Members), maps.Clone(c.Meta)
	if out.Session != nil {
		out.Session.Digest = slices.Clone(c.Session.Digest)
	}
	return out
}

func copySnapshot(s *segno.Snapshot) *segno.Snapshot {
	out := copyOf(s)
	if out != nil {
		out.Unread, out.Held, out.Git = slices.Clone(s.Unread), slices.Clone(s.Held), copyOf(s.Git)
	}
	return out
}

func copyEntries(entries []segno.Entry) []segno.Entry {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Body = slices.Clone(out[i].Body)
	}
	return out
}

func copyState(s segno.WorkspaceState) segno.WorkspaceState {
	s.Snapshot = copySnapshot(s.Snapshot)
	return s
}

func copyOperation(o segno.Operation) segno.Operation {
	o.Pin = copyOf(o.Pin)
	return o
}

func copyRecord(w segno.WorkspaceRecord) segno.WorkspaceRecord {
	w.Moved = slices.Clone(w.Moved)
	w.State = copyState(w.State)
	return w
}
