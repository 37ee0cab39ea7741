package sqlite

import (
	"bytes"
	"sync"
)

// cacheSize is how many bytes of expanded records a store keeps: a few long threads.
const cacheSize = 8 << 20

// cache keeps expanded records, so that who loads a thread again expands only what is
// new. A record is known by its row and by the bytes it is kept as: what was changed
// or damaged since is another. All methods may be called at once.
type cache struct {
	mu   sync.Mutex
	size int
	all  map[int64]expanded
}

type expanded struct{ packed, record []byte }

// get returns a copy of the record that packed expands to, or nil.
func (c *cache) get(row int64, packed []byte) []byte {
	c.mu.Lock()
	x, ok := c.all[row]
	c.mu.Unlock()
	if !ok || !bytes.Equal(x.packed, packed) {
		return nil
	}
	return bytes.Clone(x.record)
}

// put keeps copies. A cache that is full begins anew.
func (c *cache) put(row int64, packed, record []byte) {
	size := len(packed) + len(record)
	if size > cacheSize/8 {
		return
	}
	x := expanded{packed: bytes.Clone(packed), record: bytes.Clone(record)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || c.size+size > cacheSize {
		c.all, c.size = map[int64]expanded{}, 0
	}
	c.all[row] = x
	c.size += size
}
