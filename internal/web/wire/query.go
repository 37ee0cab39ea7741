package wire

import (
	"maps"
	"slices"

	"github.com/dalsegno/segno"
)

// CheckpointQuery is the JSON form of a [segno.CheckpointQuery]. Its pairs are byte slices, because they
// may not be UTF-8.
type CheckpointQuery struct {
	segno.CheckpointQuery
	Pairs [][2][]byte `json:",omitempty"`
}

// NewCheckpointQuery encodes a query.
func NewCheckpointQuery(q segno.CheckpointQuery) CheckpointQuery {
	c := CheckpointQuery{CheckpointQuery: q}
	for _, k := range slices.Sorted(maps.Keys(q.Meta)) {
		c.Pairs = append(c.Pairs, [2][]byte{[]byte(k), []byte(q.Meta[k])})
	}
	c.Meta = nil
	return c
}

// Decode is the inverse of [NewCheckpointQuery].
func (c *CheckpointQuery) Decode() segno.CheckpointQuery {
	q := c.CheckpointQuery
	for _, p := range c.Pairs {
		if q.Meta == nil {
			q.Meta = map[string]string{}
		}
		q.Meta[string(p[0])] = string(p[1])
	}
	return q
}

// WorkspaceQuery selects workspaces: the one with ID, else those at one of Paths, or with a device and an
// inode.
type WorkspaceQuery struct {
	ID     segno.WorkspaceID
	Paths  [][]byte // byte slices, because a path may not be UTF-8
	Device uint64
	Inode  uint64
}
