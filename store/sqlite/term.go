package sqlite

import (
	"encoding/binary"

	"github.com/dalsegno/segno"
)

// term stands for one value of one field of a checkpoint. Values are compared
// after the look-up, so a collision costs time and nothing else.
func term(field, value string) int64 {
	h := segno.HashOf([]byte(field + "\x00" + value))
	return int64(binary.LittleEndian.Uint64(h[:8]))
}

const (
	fieldLeaf      = "leaf"
	fieldKey       = "key"
	fieldSession   = "session"
	fieldWorkspace = "workspace"
	fieldMeta      = "meta"
	fieldOf        = "of" // of a thread: the terms of its first commit
)

// terms are what a checkpoint is found by.
func terms(c *segno.Checkpoint) (all []int64) {
	if c == nil {
		return nil
	}
	add := func(field, value string) {
		if value != "" {
			all = append(all, term(field, value))
		}
	}
	if c.Session != nil {
		add(fieldLeaf, c.Session.Leaf)
		add(fieldSession, string(c.Session.Session))
	}
	add(fieldKey, string(c.Key))
	if c.Workspace != nil {
		add(fieldWorkspace, string(c.Workspace.Workspace))
	}
	for key, value := range c.Meta {
		add(fieldMeta, key+"\x00"+value)
	}
	return all
}

// asked are the terms of a query, the rarest first.
func asked(q segno.CheckpointQuery) (all []int64) {
	for _, f := range []struct{ field, value string }{{fieldLeaf, q.Leaf}, {fieldKey, string(q.Key)},
		{fieldSession, string(q.Session)}, {fieldWorkspace, string(q.Workspace)}} {
		if f.value != "" {
			all = append(all, term(f.field, f.value))
		}
	}
	for key, value := range q.Meta {
		all = append(all, term(fieldMeta, key+"\x00"+value))
	}
	return all
}
