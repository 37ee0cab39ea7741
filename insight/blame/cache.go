package blame

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/vfs"
)

// Cache keeps facts about trees, contents and checkpoints, which never change: the content at a path of a tree, the hunks
// between two contents. It is a file beside the index of search for each file that was blamed. It can be deleted, and a
// damaged one is empty. Collections, purges and conversions of the store remove it with that index.
type Cache struct {
	files  local.SearchFiles
	name   string // of the file, without its directory
	facts  map[factKey][]byte
	isNew  bool // there are facts that the file does not have
	unlock func()
}

type factKey [16]byte

var errCache = segno.Errorf(segno.KindInternal, "read cache of blame", "", "a fact is malformed")

const (
	cacheMagic = "segno blame 1\n"
	maxCache   = 32 << 20 // a larger cache is not written
)

// OpenCache opens the cache for a file of a workspace.
func OpenCache(s *local.Store, workspace segno.WorkspaceID, path string) *Cache {
	c := &Cache{files: s.SearchFiles()}
	c.name = c.files.Name("blame", string(workspace)+"\x00"+path) + ".blame"
	c.read()
	return c
}

// read reads the file.
func (c *Cache) read() {
	c.facts = map[factKey][]byte{}
	data, err := os.ReadFile(filepath.Join(c.files.Dir, c.name))
	if err != nil {
		return
	}
	data, isOurs := bytes.CutPrefix(data, []byte(cacheMagic))
	if z := c.files.Sealer; isOurs && z != nil {
		if data, err = z.Open(data, "blame", c.name); err != nil {
			return
		}
	} else if n := len(data) - crc32.Size; !isOurs || n < 0 || binary.LittleEndian.Uint32(data[n:]) != crc32.ChecksumIEEE(data[:n]) {
		return
	} else {
		data = data[:n]
	}
	for len(data) > len(factKey{}) {
		key := factKey(data[:len(factKey{})])
		n, size := binary.Uvarint(data[len(key):])
		data = data[len(key)+max(size, 0):]
		if size <= 0 || n > uint64(len(data)) {
			return
		}
		c.facts[key], data = data[:n:n], data[n:]
	}
}

// fact returns a fact about some inputs, and finds it out if the cache does not have it. From the first such fact on, the
// cache holds the lock of the index, so that no collection removes data that the cache then has. If another process holds
// it, nothing is kept. A nil cache keeps nothing.
func (c *Cache) fact(ctx context.Context, kind string, find func() ([]byte, error), inputs ...[]byte) ([]byte, error) {
	if c == nil {
		return find()
	}
	h := sha256.New()
	for _, part := range append([][]byte{[]byte(kind)}, inputs...) {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	key := factKey(h.Sum(nil))
	value, ok := c.facts[key]
	if ok {
		return value, nil
	}
	if c.unlock == nil && c.files.Lock != nil {
		if unlock, err := c.files.Lock(ctx); err == nil {
			c.unlock = unlock
			c.read() // a collection may have removed it
		}
		c.files.Lock = nil
	}
	value, err := find()
	if err == nil {
		c.facts[key], c.isNew = value, true
	}
	return value, err
}

// Close writes new facts. A nil cache has none.
func (c *Cache) Close() {
	if c == nil || c.unlock == nil {
		return
	}
	defer c.unlock()
	var out []byte
	for key, value := range c.facts {
		out = append(binary.AppendUvarint(append(out, key[:]...), uint64(len(value))), value...)
	}
	if !c.isNew || len(out) > maxCache {
		return
	}
	if z := c.files.Sealer; z != nil {
		out = z.Seal(out, "blame", c.name)
	} else {
		out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	}
	if vfs.MkdirAll(c.files.FS, c.files.Dir) == nil {
		_ = vfs.Replace(c.files.FS, filepath.Join(c.files.Dir, c.name), append([]byte(cacheMagic), out...), 0o600) // at worst the next blame is slower
	}
}
