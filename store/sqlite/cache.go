package sqlite

import (
	"slices"
	"sync"

	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// cacheSize is the number of bytes of records that a store caches: a few long threads.
const cacheSize = 8 << 20

// cache holds the lines that were loaded last, so that a caller that loads a thread again reads only its new
// commits. A commit and its ancestors never change, so a cached line is valid as long as its last commit
// exists. All methods may be called concurrently.
type cache struct {
	mu    sync.Mutex
	lines []cachedLine // ordered by use, the most recent last
}

// cachedLine is a line, starting at its root, so that the index of a node is its depth. Its nodes and their
// records are never modified.
type cachedLine struct {
	line  int64 // the number of its newest segment
	size  int
	nodes []sqlstore.Node
}

// get returns the cached nodes of a line, or nil.
func (c *cache) get(line int64) []sqlstore.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.lines, func(l cachedLine) bool { return l.line == line })
	if i < 0 {
		return nil
	}
	l := c.lines[i]
	c.lines = append(slices.Delete(c.lines, i, i+1), l)
	return l.nodes
}

// put replaces the cached nodes of a line, and evicts the least recently used lines.
func (c *cache) put(line int64, nodes []sqlstore.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = slices.DeleteFunc(c.lines, func(l cachedLine) bool { return l.line == line })
	size := memorySize(nodes)
	if size > cacheSize {
		return
	}
	c.lines = append(c.lines, cachedLine{line: line, nodes: nodes, size: size})
	keep := len(c.lines)
	for free := cacheSize; keep > 0 && c.lines[keep-1].size <= free; keep-- {
		free -= c.lines[keep-1].size
	}
	c.lines = slices.Delete(c.lines, 0, keep)
}

// memorySize returns approximately how many bytes nodes occupy.
func memorySize(nodes []sqlstore.Node) (size int) {
	const nodeSize = 256
	for i := range nodes {
		n := &nodes[i]
		size += nodeSize + len(n.ID) + len(n.Parent) + len(n.Thread) + len(n.Records[sqlstore.Checkpoint]) +
			len(n.Records[sqlstore.Entries])
	}
	return size
}
