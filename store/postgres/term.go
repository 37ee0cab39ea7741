package postgres

import (
	"encoding/binary"

	"github.com/dalsegno/segno"
)

// digestOf stands for a name of any length in an index.
func digestOf(name string) []byte {
	h := segno.HashOf([]byte(name))
	return h[:16]
}

// short is digestOf, and NULL for no name.
func short(name string) []byte {
	if name == "" {
		return nil
	}
	return digestOf(name)
}

// term stands for one value of one field of a checkpoint. Values are compared after the
// look-up, so a collision costs time and nothing else.
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
)

// terms are what a checkpoint is found by.
func terms(c *segno.Checkpoint) []int64 {
	if c == nil {
		return nil
	}
	q := segno.CheckpointQuery{Key: c.Key, Meta: c.Meta}
	if c.Session != nil {
		q.Leaf, q.Session = c.Session.Leaf, c.Session.Session
	}
	if c.Workspace != nil {
		q.Workspace = c.Workspace.Workspace
	}
	return asked(&q)
}

// asked are the terms of a query, the rarest first.
func asked(q *segno.CheckpointQuery) (all []int64) {
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
