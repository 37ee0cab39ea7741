package record

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// Term returns the number that stands for a field's value in an index. The caller compares the values after the
// look-up, so a collision only costs time. Terms are stored. In a sealed store they are keyed: without the key, a
// reader learns only which terms are equal.
func (z *Sealer) Term(field, value string) int64 {
	var h segno.Hash
	if z == nil {
		h = segno.HashOf([]byte(field + "\x00" + value))
	} else {
		h = z.sum("term "+field, []byte(value))
	}
	return int64(binary.LittleEndian.Uint64(h[:8]))
}

// TermField is a value by which a checkpoint is found.
type TermField struct{ Field, Value string }

// TermFields returns the values by which a checkpoint is found, in a fixed order.
func TermFields(c *segno.Checkpoint) []TermField {
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
	return fieldsOf(&q)
}

// fieldsOf returns the values of a query, the rarest first.
func fieldsOf(q *segno.CheckpointQuery) (all []TermField) {
	for _, f := range []TermField{{"leaf", q.Leaf}, {"key", string(q.Key)}, {"session", string(q.Session)},
		{"workspace", string(q.Workspace)}} {
		if f.Value != "" {
			all = append(all, f)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(q.Meta)) {
		all = append(all, TermField{"meta", key + "\x00" + q.Meta[key]})
	}
	return all
}

// Terms returns the terms by which a checkpoint is found.
func (z *Sealer) Terms(c *segno.Checkpoint) []int64 { return z.terms(TermFields(c)) }

// Asked returns the terms of a query, the rarest first.
func (z *Sealer) Asked(q *segno.CheckpointQuery) []int64 { return z.terms(fieldsOf(q)) }

func (z *Sealer) terms(fields []TermField) (all []int64) {
	for _, f := range fields {
		all = append(all, z.Term(f.Field, f.Value))
	}
	return all
}
