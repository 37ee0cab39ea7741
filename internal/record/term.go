package record

import (
	"encoding/binary"

	"github.com/dalsegno/segno"
)

// Term stands for one value of one field in an index. Values are compared after the
// look-up, so a collision costs time and nothing else. Terms are on disk. Those of a
// sealed store are keyed: who has not the key learns which are equal, and nothing else.
func (z *Sealer) Term(field, value string) int64 {
	var h segno.Hash
	if z == nil {
		h = segno.HashOf([]byte(field + "\x00" + value))
	} else {
		h = z.sum("term "+field, []byte(value))
	}
	return int64(binary.LittleEndian.Uint64(h[:8]))
}

// Terms are what a checkpoint is found by.
func (z *Sealer) Terms(c *segno.Checkpoint) []int64 {
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
	return z.Asked(&q)
}

// Asked are the terms of a query, the rarest first.
func (z *Sealer) Asked(q *segno.CheckpointQuery) (all []int64) {
	for _, f := range []struct{ field, value string }{{"leaf", q.Leaf}, {"key", string(q.Key)},
		{"session", string(q.Session)}, {"workspace", string(q.Workspace)}} {
		if f.value != "" {
			all = append(all, z.Term(f.field, f.value))
		}
	}
	for key, value := range q.Meta {
		all = append(all, z.Term("meta", key+"\x00"+value))
	}
	return all
}
