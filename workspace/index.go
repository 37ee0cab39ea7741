package workspace

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// The index file, all numbers little endian:
//
//	"segno index 2\n" · device, inode of the root (8 each) · hash of the rules (32)
//	number of entries (8) · the root's node · CRC-32C of everything before (4)
//
// A node is tree, times, xattrs (32 each) · ctime (8) · number of entries (4) · the
// entries · the nodes of its directories, in the same order. An entry is kind,
// flags (1 each) · nlink, mode (4 each) · inode, size, mtime, ctime (8 each), then
// by kind its content hash (32), note, device, xattrs (32), owner (4, 4), and its name. The
// ctime is 0, which no file has, if the content may change while the stat stays.
// Version 1 kept the ctime of mapped files.
const indexMagic = "segno index 2\n"

// Flags of an entry in the index.
const (
	flagOwner = 1 << iota // it has setuid or setgid
	flagXattrs
	flagDevice // it is on another device than the root
	flagHeld   // it is saved although a rule protects it
)

// index is the content of the file.
type index struct {
	root    stat       // which directory it is about; device and inode
	rules   segno.Hash // the hash of the rules that protected paths
	entries int        // a hint for the size
	top     *node
}

// encode returns the file's bytes.
func (x *index) encode() []byte {
	b := make([]byte, 0, 4096+x.entries*128)
	b = append(b, indexMagic...)
	b = binary.LittleEndian.AppendUint64(b, x.root.dev)
	b = binary.LittleEndian.AppendUint64(b, x.root.ino)
	b = append(b, x.rules[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.entries))
	return appendChecksum(x.top.append(b, x.root.dev))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func appendChecksum(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, checksum(b)) }

func (n *node) append(b []byte, dev uint64) []byte {
	b = append(append(append(b, n.tree[:]...), n.times[:]...), n.xattrs[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(n.ctime))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(n.entries)))
	for i := range n.entries {
		b = n.entries[i].append(b, dev)
	}
	for i := range n.entries {
		if e := &n.entries[i]; e.kind == kindDir {
			b = e.child.append(b, dev)
		}
	}
	return b
}

func (e *entry) append(b []byte, dev uint64) []byte {
	flags := byte(0)
	if e.st.hasSetIDs() {
		flags |= flagOwner
	}
	if e.xattrs != nil {
		flags |= flagXattrs
	}
	if e.st.dev != dev {
		flags |= flagDevice
	}
	if e.held {
		flags |= flagHeld
	}
	ctime := e.st.ctime
	if e.racy {
		ctime = 0 // no file has it, so that the next scan looks again
	}
	b = append(b, e.kind, flags)
	b = binary.LittleEndian.AppendUint32(b, e.st.nlink)
	b = binary.LittleEndian.AppendUint32(b, e.st.mode)
	b = binary.LittleEndian.AppendUint64(b, e.st.ino)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.st.size))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.st.mtime))
	b = binary.LittleEndian.AppendUint64(b, uint64(ctime))
	if e.isFile() {
		b = append(b, e.hash[:]...)
	}
	if e.kind != kindFile && e.kind != kindDir {
		b = appendText(b, e.note)
	}
	if flags&flagDevice != 0 {
		b = binary.LittleEndian.AppendUint64(b, e.st.dev)
	}
	if e.xattrs != nil {
		b = append(b, e.xattrs[:]...)
	}
	if flags&flagOwner != 0 {
		b = binary.LittleEndian.AppendUint32(b, e.st.uid)
		b = binary.LittleEndian.AppendUint32(b, e.st.gid)
	}
	return appendText(b, e.name)
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

// decodeIndex reads the file's bytes, and reports false for anything that is not
// an index as encode writes it.
func decodeIndex(data []byte) (*index, bool) {
	const head = len(indexMagic) + 8 + 8 + 32 + 8
	end := len(data) - 4
	if end < head || string(data[:len(indexMagic)]) != indexMagic ||
		binary.LittleEndian.Uint32(data[end:]) != checksum(data[:end]) {
		return nil, false
	}
	r := indexReader{decoder: decoder{rest: string(data[len(indexMagic):end])}}
	x := &index{}
	x.root.dev, x.root.ino = r.uint64(), r.uint64()
	r.hashTo(&x.rules)
	x.entries = int(r.uint64())
	if x.entries < 0 || x.entries > len(data)/minEntry {
		return nil, false
	}
	r.dev = x.root.dev
	r.slab = make([]entry, x.entries)
	x.top = r.node("")
	return x, r.err == nil && r.rest == "" && len(r.slab) == 0
}

// minEntry is fewer bytes than any entry takes.
const minEntry = 40

// indexReader reads an index. Names are parts of the decoder's text, and entries of the slab.
type indexReader struct {
	decoder
	slab []entry
	dev  uint64
}

func (r *indexReader) uint32() uint32 {
	s := r.take(4)
	if len(s) < 4 {
		return 0
	}
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func (r *indexReader) uint64() uint64 { return uint64(r.uint32()) | uint64(r.uint32())<<32 }
func (r *indexReader) text() string   { return r.take(uint64(r.uint32())) }

// hashTo reads a hash, which may be zero.
func (r *indexReader) hashTo(h *segno.Hash) { copy(h[:], r.take(uint64(len(h)))) }

func (r *indexReader) node(path string) *node {
	n := &node{path: path}
	r.hashTo(&n.tree)
	r.hashTo(&n.times)
	r.hashTo(&n.xattrs)
	n.oldXattrs = n.xattrs
	n.ctime = int64(r.uint64())
	count := int(r.uint32())
	if count > len(r.slab) {
		r.fail("more entries than the index has")
		return n
	}
	n.entries, r.slab = r.slab[:count:count], r.slab[count:]
	for i := range n.entries {
		r.entry(&n.entries[i])
	}
	for i := range n.entries {
		if e := &n.entries[i]; e.kind == kindDir && r.err == nil {
			e.child = r.node(join(path, e.name))
		}
	}
	return n
}

func (r *indexReader) entry(e *entry) {
	var flags byte
	e.kind, flags = r.byte(), r.byte()
	e.st = stat{dev: r.dev, nlink: r.uint32(), mode: r.uint32(), ino: r.uint64(),
		size: int64(r.uint64()), mtime: int64(r.uint64()), ctime: int64(r.uint64())}
	switch e.kind {
	case kindFile:
		r.hashTo(&e.hash)
	case kindHardLink:
		r.hashTo(&e.hash)
		e.note = r.text()
	case kindSymlink, kindProtected:
		e.note = r.text()
	case kindDir:
	default:
		r.fail("an entry of an unknown kind")
	}
	e.held = flags&flagHeld != 0
	if flags&flagDevice != 0 {
		e.st.dev = r.uint64()
	}
	if flags&flagXattrs != 0 {
		e.xattrs = new(segno.Hash)
		r.hashTo(e.xattrs)
	}
	if flags&flagOwner != 0 {
		e.st.uid, e.st.gid = r.uint32(), r.uint32()
	}
	e.name = r.text()
	if !validName(e.name) {
		r.fail("an entry without a name")
	}
}

// cachedIndex is an index in memory that equals a file.
type cachedIndex struct {
	index *index
	file  stat
}

// loadIndex returns the index of the directory root, or nil: there is none, or it is torn,
// of another version or about another directory. It returns the index in memory as long as
// that equals the file.
func (d *Dir) loadIndex(root stat) *index {
	path := d.options.Index
	if path == "" {
		return nil
	}
	if c := d.cached; c != nil && c.index.root.isSameFile(&root) {
		if st, err := statStateFile(path); err == nil && st == c.file {
			return c.index
		}
	}
	data, err := readStateFile(path, maxIndex)
	if err != nil {
		return nil // a full scan needs no index
	}
	if x, ok := decodeIndex(data); ok && x.root.isSameFile(&root) {
		return x
	}
	return nil
}

// cacheIndex keeps x, which equals the file, in memory.
func (d *Dir) cacheIndex(x *index) {
	if st, err := statStateFile(d.options.Index); err == nil {
		x.top.reset()
		d.cached = &cachedIndex{x, st}
	}
}

// reset makes a scanned node equal to one that was read from an index.
func (n *node) reset() {
	n.fresh, n.oldXattrs, n.byName = false, n.xattrs, nil
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

// maxIndex is the size up to which an index is read. An entry takes some eighty bytes.
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

// saveIndex replaces the index. It does not sync the file: after a crash of the machine the
// index may be torn, and its checksum no longer matches.
//
// saveIndex removes the old index before it renames the new one: ext4 starts writing a file
// to the disk when it is renamed onto another one, and that took longer than creating and
// filling the new index. A process that scans in between finds no index and reads every file.
func saveIndex(fsys vfs.FS, path string, x *index) (err error) {
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
	_, err = f.Write(x.encode())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.Rename(temp, path)
}
