package sqlite

import "sync"

// cacheSize is how many bytes of records a store keeps: a few long threads.
const cacheSize = 8 << 20

// cache keeps the lines that were loaded last, so that who loads a thread again reads
// only what is new. A commit never changes, nor do its ancestors, so what is kept
// under an id holds as long as the id is there. All methods may be called at once.
type cache struct {
	mu    sync.Mutex
	size  int
	lines []keptLine // the one used last is the last
}

// keptLine is a whole line, from its root on, so that a node's index is its depth.
// Nobody writes to nodes or to their records.
type keptLine struct {
	line  int64 // the number of its newest segment
	size  int
	nodes []segment
}

// get returns what is kept of a line, or nil.
func (c *cache) get(line int64) []segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range c.lines {
		if l.line == line {
			copy(c.lines[i:], c.lines[i+1:])
			c.lines[len(c.lines)-1] = l
			return l.nodes
		}
	}
	return nil
}

// put keeps a line in the place of what was kept of it, and drops those that were not
// used for longest.
func (c *cache) put(line int64, nodes []segment) {
	kept := keptLine{line: line, nodes: nodes, size: inMemory(nodes)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(func(l keptLine) bool { return l.line == line })
	if kept.size > cacheSize {
		return
	}
	c.drop(func(keptLine) bool { return c.size+kept.size > cacheSize })
	c.lines = append(c.lines, kept)
	c.size += kept.size
}

// drop takes out the lines that which says, asked in order.
func (c *cache) drop(which func(keptLine) bool) {
	left := c.lines[:0]
	for _, l := range c.lines {
		if which(l) {
			c.size -= l.size
		} else {
			left = append(left, l)
		}
	}
	clear(c.lines[len(left):])
	c.lines = left
}

// inMemory is about what nodes take.
func inMemory(nodes []segment) (size int) {
	const node = 256
	for i := range nodes {
		n := &nodes[i]
		size += node + len(n.ID) + len(n.Parent) + len(n.Thread) + len(n.checkpoint) + len(n.entries)
	}
	return size
}
