package record

import (
	"encoding/binary"

	"github.com/dalsegno/segno"
)

// Term returns the number of a field's value in an index. The caller compares the values after the
// look-up, so that a collision costs only time. Terms are stored. Those of a sealed store are keyed:
// without the key a reader learns only which are equal.
func (z *Sealer) Term(field, value string) int64 {
	var h segno.Hash
	if z == nil {
		h = segno.HashOf([]byte(field + "\x00" + value))
	} else {
		h = z.sum("term "+field, []byte(value))
	}
	return int64(binary.LittleEndian.Uint64(h[:8]))
}

// Terms returns the terms by which a checkpoint is found.
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

// Asked returns the terms of a query, the rarest first.
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
