package sqlite

import (
	"slices"
	"sync"

	"github.com/dalsegno/segno/internal/sqlstore"
)

// cacheSize is how many bytes of records a store caches: a few long threads.
const cacheSize = 8 << 20

// cache has the lines that were loaded last, so that a caller that loads a thread again reads only its new
// commits. A commit and its ancestors never change, so a cached line is valid as long as its last commit
// exists. All methods may be called at once.
type cache struct {
	mu    sync.Mutex
	size  int
	lines []cachedLine // the most recently used is the last
}

// cachedLine is a line from its root on, so that the index of a node is its depth. Its nodes and their records
// are never written.
type cachedLine struct {
	line  int64 // the number of its newest segment
	size  int
	nodes []sqlstore.Node
}

// get returns what is cached of a line, or nil.
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

// put replaces what is cached of a line, and evicts the lines that were not used for the longest time.
func (c *cache) put(line int64, nodes []sqlstore.Node) {
	added := cachedLine{line: line, nodes: nodes, size: memorySize(nodes)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(func(l cachedLine) bool { return l.line == line })
	if added.size > cacheSize {
		return
	}
	c.evict(func(cachedLine) bool { return c.size+added.size > cacheSize })
	c.lines = append(c.lines, added)
	c.size += added.size
}

// evict removes the lines for which remove returns true; it asks for the oldest first.
func (c *cache) evict(remove func(cachedLine) bool) {
	c.lines = slices.DeleteFunc(c.lines, func(l cachedLine) bool {
		if !remove(l) {
			return false
		}
		c.size -= l.size
		return true
	})
}

// memorySize returns about how many bytes nodes occupy.
func memorySize(nodes []sqlstore.Node) (size int) {
	const nodeSize = 256
	for i := range nodes {
		n := &nodes[i]
		size += nodeSize + len(n.ID) + len(n.Parent) + len(n.Thread) + len(n.Records[sqlstore.Checkpoint]) + len(n.Records[sqlstore.Entries])
	}
	return size
}
