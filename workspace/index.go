package workspace

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/workspace/internal/watch"
)

// The index file:
//
//	"segno index 4\n" · stat of the root · hash of the rules · token of the watcher · number of entries
//	the root's node · CRC-32C of everything before (4 bytes, little endian)
//
// A node is tree, times, xattrs (32 bytes each) · ctime · number of entries · the entries · the
// nodes of its directories, in the same order. An entry is kind, held (1 byte each) · stat · the
// hash of its content, if it is a file · note · hash of the xattrs, if it has any · name. Numbers,
// notes and names are coded as in objects. A stat has the layout of memory, because an index never
// leaves its machine. Its ctime is 0, which no file has, if the content may change without a change
// of the stat.
const indexMagic = "segno index 4\n"

// index is the content of the file.
type index struct {
	root    stat        // the stat of its directory; device and inode
	rules   segno.Hash  // the hash of the rules that decided which paths are protected
	token   watch.Token // a moment before the scan that made the index; zero without a watcher
	entries int         // the approximate number of entries
	top     *node
}

// encode returns the file's bytes.
func (x *index) encode() []byte {
	c := indexCodec{codec: codec{out: append(make([]byte, 0, 4096+x.entries*128), indexMagic...)}}
	c.index(x)
	return appendChecksum(c.out)
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func appendChecksum(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, checksum(b)) }

// decodeIndex decodes the file's bytes. It returns false for bytes that encode cannot have written.
func decodeIndex(data []byte) (*index, bool) {
	end := len(data) - 4
	if end < len(indexMagic) || string(data[:len(indexMagic)]) != indexMagic ||
		binary.LittleEndian.Uint32(data[end:]) != checksum(data[:end]) {
		return nil, false
	}
	c := indexCodec{codec: codec{decoding: true, in: string(data[len(indexMagic):end])}}
	x := &index{top: &node{}}
	c.index(x)
	return x, c.err == nil && c.in == "" && len(c.slab) == 0
}

// indexCodec codes an index. Decoded entries are parts of the slab.
type indexCodec struct {
	codec
	slab []entry
}

// minEntry is less than the size of any entry in bytes.
const minEntry = 40

func (c *indexCodec) index(x *index) {
	c.raw(x.root.bytes())
	c.raw(x.rules[:])
	c.raw(x.token.Watcher[:])
	c.uint(&x.token.Seq, math.MaxUint64)
	limit := len(c.in) / minEntry
	c.count(&x.entries, limit)
	if c.decoding {
		c.slab = make([]entry, x.entries)
	}
	c.node(x.top)
}

// count codes a number of entries, at most limit.
func (c *indexCodec) count(n *int, limit int) {
	v := uint64(*n)
	c.uint(&v, uint64(limit))
	*n = int(v)
}

func (c *indexCodec) node(n *node) {
	c.raw(n.tree[:])
	c.raw(n.times[:])
	c.raw(n.xattrs[:])
	ctime := uint64(n.ctime)
	c.uint(&ctime, math.MaxUint64)
	n.ctime = int64(ctime)
	count := len(n.entries)
	c.count(&count, len(c.slab))
	if c.decoding {
		n.oldXattrs = n.xattrs
		n.entries, c.slab = c.slab[:count:count], c.slab[count:]
	}
	for i := range n.entries {
		c.entry(&n.entries[i])
	}
	for i := range n.entries {
		if e := &n.entries[i]; e.kind == kindDir && c.err == nil {
			if c.decoding {
				e.child = &node{path: join(n.path, e.name)}
			}
			c.node(e.child)
		}
	}
}

func (c *indexCodec) entry(e *entry) {
	c.byte(&e.kind)
	c.bool(&e.held)
	st := e.st
	if e.racy {
		st.ctime = 0 // no file has this ctime, so the next scan reads the file
	}
	c.raw(st.bytes())
	if c.decoding {
		e.st = st
	}
	switch e.kind {
	case kindFile:
		c.raw(e.hash[:])
	case kindHardLink:
		c.raw(e.hash[:])
		c.text(&e.note)
	case kindSymlink, kindProtected:
		c.text(&e.note)
	case kindDir:
	default:
		c.fail("an entry of an unknown kind")
	}
	var xattrs segno.Hash
	if e.xattrs != nil {
		xattrs = *e.xattrs
	}
	if c.optional(&xattrs); c.decoding && !xattrs.IsZero() {
		e.xattrs = new(xattrs)
	}
	c.text(&e.name)
	c.check(validName(e.name), "an entry without a name")
}

// cachedIndex is an index in memory. It equals the index file, except for what the scans in unsaved have read.
type cachedIndex struct {
	index   *index
	file    stat
	rules   *rules
	unsaved reads
}

// reads counts the files that scans have read, and their bytes.
type reads struct{ files, bytes int64 }

func (r reads) and(other reads) reads { return reads{r.files + other.files, r.bytes + other.bytes} }

// areFew reports whether a later process can read the files again in less time than it takes to write an index. A process
// that keeps the index in memory takes many snapshots before that, so it waits for sixteen times as much.
func (r reads) areFew(lives bool) bool {
	maxFiles, maxBytes := int64(32), int64(256<<10)
	if lives {
		maxFiles, maxBytes = 16*maxFiles, 16*maxBytes
	}
	return r.files <= maxFiles && r.bytes <= maxBytes
}

// loadIndex returns the index of the directory root. It returns nil if there is none, or if it is
// torn, of another version or of another directory. As long as no other process has written the file,
// it returns the index of c, which may be nil.
func (d *Dir) loadIndex(root stat, c *cachedIndex) *index {
	path := d.options.Index
	if path == "" {
		return nil
	}
	if c != nil && c.index.root.isSameFile(&root) {
		if st, err := statStateFile(path); err == nil && st == c.file {
			return c.index
		}
	}
	data, err := readStateFile(path, maxIndex)
	if z := d.options.Sealer; err == nil && z != nil {
		data, err = z.OpenFile(path, data)
	}
	if err != nil {
		return nil // a full scan needs no index
	}
	if x, ok := decodeIndex(data); ok && x.root.isSameFile(&root) {
		return x
	}
	return nil
}

// cacheIndex keeps x in memory. The index file has all of it except unsaved.
func (v *view) cacheIndex(x *index, unsaved reads) {
	if st, err := statStateFile(v.dir.options.Index); err == nil {
		x.top.reset()
		v.dir.keepCached(&cachedIndex{x, st, v.scan.rules, unsaved}, v.scan)
	}
}

// touchIndex changes the time of the index file, so that each other process finds that this one has taken a snapshot,
// and does not rely on the index that it has in memory. It returns false if it cannot, as when the file was removed.
func touchIndex(fsys vfs.FS, path string) bool {
	now := time.Now()
	return fsys.Chtimes(path, now, now) == nil
}

// reset makes a scanned node equal to a node that was read from an index.
func (n *node) reset() {
	if !n.scanned {
		return
	}
	n.scanned, n.fresh, n.oldXattrs, n.byName = false, false, n.xattrs, nil
	for i := range n.entries {
		e := &n.entries[i]
		if e.racy {
			e.st.ctime, e.racy = 0, false
		}
		if e.kind == kindDir {
			e.child.reset()
		}
	}
}

// maxIndex is the largest size of an index that is read. An entry takes about eighty bytes.
const maxIndex = 1 << 32

// readStateFile returns the content of a file that segno keeps outside the tree.
func readStateFile(path string, limit int64) ([]byte, error) {
	dir, err := openRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.close()
	return dir.readFile(filepath.Base(path), limit)
}

func statStateFile(path string) (stat, error) {
	dir, err := openRoot(filepath.Dir(path))
	if err != nil {
		return stat{}, err
	}
	defer dir.close()
	return dir.lstat(filepath.Base(path))
}

// saveIndex replaces the index. It does not sync the file: if the machine crashes, the index may be
// torn. Its checksum then does not match.
//
// saveIndex removes the old index before it renames the new one. ext4 starts writing a file to the
// disk when it is renamed onto another one, and that took longer than creating and writing the new
// index. A process that scans in between finds no index and reads every file.
func saveIndex(fsys vfs.FS, path string, x *index, z Sealer) (err error) {
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, ".segno-"+rand.Text())
	defer func() {
		if err != nil {
			_ = fsys.Remove(temp) // best effort: the caller needs the first error
			err = pathError("save index", path, err)
		}
	}()
	if err := vfs.MkdirAll(fsys, dir); err != nil {
		return err
	}
	f, err := fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	data := x.encode()
	if z != nil {
		data = z.SealFile(path, data)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.Rename(temp, path)
}
