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

// index is what the file holds.
type index struct {
	root    stat       // which directory it is about; device and inode
	rules   segno.Hash // what decided which paths are protected
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
	b = x.top.append(b, x.root.dev)
	return sum(b)
}

// sum appends the checksum of b to it.
func sum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

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
	if e.st.lends() {
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
		binary.LittleEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)) {
		return nil, false
	}
	r := indexReader{text: string(data[len(indexMagic):end])}
	x := &index{}
	x.root.dev, x.root.ino = r.uint64(), r.uint64()
	r.hash(&x.rules)
	x.entries = int(r.uint64())
	if x.entries < 0 || x.entries > len(data)/minEntry {
		return nil, false
	}
	r.dev = x.root.dev
	r.slab = make([]entry, x.entries)
	x.top = r.node("")
	return x, !r.bad && r.text == "" && len(r.slab) == 0
}

// minEntry is fewer bytes than any entry takes.
const minEntry = 40

// indexReader reads an index; bad says that it was not one.
type indexReader struct {
	text string // what is left; names are parts of it
	slab []entry
	dev  uint64
	bad  bool
}

func (r *indexReader) take(n int) string {
	if n < 0 || n > len(r.text) {
		r.bad, r.text = true, ""
		return ""
	}
	s := r.text[:n]
	r.text = r.text[n:]
	return s
}

func (r *indexReader) uint32() uint32 {
	s := r.take(4)
	if len(s) < 4 {
		return 0
	}
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func (r *indexReader) uint64() uint64 {
	s := r.take(8)
	if len(s) < 8 {
		return 0
	}
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (r *indexReader) hash(h *segno.Hash) { copy(h[:], r.take(len(h))) }
func (r *indexReader) string() string     { return r.take(int(r.uint32())) }

func (r *indexReader) node(path string) *node {
	n := &node{path: path}
	r.hash(&n.tree)
	r.hash(&n.times)
	r.hash(&n.xattrs)
	n.oldXattrs = n.xattrs
	n.ctime = int64(r.uint64())
	count := int(r.uint32())
	if count > len(r.slab) {
		r.bad = true
		return n
	}
	n.entries, r.slab = r.slab[:count:count], r.slab[count:]
	for i := range n.entries {
		r.entry(&n.entries[i])
	}
	for i := range n.entries {
		if e := &n.entries[i]; e.kind == kindDir && !r.bad {
			e.child = r.node(join(path, e.name))
		}
	}
	return n
}

func (r *indexReader) entry(e *entry) {
	kind := r.take(2)
	if len(kind) < 2 {
		return
	}
	e.kind = kind[0]
	e.st = stat{dev: r.dev, nlink: r.uint32(), mode: r.uint32(), ino: r.uint64(),
		size: int64(r.uint64()), mtime: int64(r.uint64()), ctime: int64(r.uint64())}
	switch e.kind {
	case kindFile:
		r.hash(&e.hash)
	case kindHardLink:
		r.hash(&e.hash)
		e.note = r.string()
	case kindSymlink, kindProtected:
		e.note = r.string()
	case kindDir:
	default:
		r.bad = true
	}
	e.held = kind[1]&flagHeld != 0
	if kind[1]&flagDevice != 0 {
		e.st.dev = r.uint64()
	}
	if kind[1]&flagXattrs != 0 {
		e.xattrs = new(segno.Hash)
		r.hash(e.xattrs)
	}
	if kind[1]&flagOwner != 0 {
		e.st.uid, e.st.gid = r.uint32(), r.uint32()
	}
	if e.name = r.string(); !validName(e.name) {
		r.bad = true
	}
}

// loadIndex reads the index of the directory root, or returns nil: there is none,
// it is torn, of another version or about another directory.
func loadIndex(path string, root stat) *index {
	if path == "" {
		return nil
	}
	data, err := readOwn(path, maxIndex)
	if err != nil {
		return nil // whatever the cause, a full scan does without
	}
	x, ok := decodeIndex(data)
	if !ok || !x.root.same(&root) {
		return nil
	}
	return x
}

// kept is an index in memory and the file it is the same as.
type kept struct {
	index *index
	file  stat
}

// load returns the index of the directory root: the one in memory as long as the
// file is the one it is the same as.
func (d *Dir) load(root stat) *index {
	k := d.kept
	if k == nil || d.config.Index == "" || !k.index.root.same(&root) {
		return loadIndex(d.config.Index, root)
	}
	if st, err := statOwn(d.config.Index); err != nil || st != k.file {
		return loadIndex(d.config.Index, root)
	}
	return k.index
}

// keep remembers x, which is what the file holds.
func (d *Dir) keep(x *index) {
	st, err := statOwn(d.config.Index)
	if err != nil {
		return
	}
	x.top.rest()
	d.kept = &kept{x, st}
}

// rest makes a node that was scanned one as read from an index.
func (n *node) rest() {
	n.fresh, n.oldXattrs, n.byName = false, n.xattrs, nil
	for i := range n.entries {
		e := &n.entries[i]
		if e.racy {
			e.st.ctime, e.racy = 0, false
		}
		if e.kind == kindDir {
			e.child.rest()
		}
	}
}

// maxIndex is the size up to which an index is read. An entry takes some eighty bytes.
const maxIndex = 1 << 32

// readOwn returns the content of a file that segno keeps outside the tree.
func readOwn(path string, limit int64) ([]byte, error) {
	dir, err := openRootDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.close()
	return dir.dir().readAll(filepath.Base(path), limit)
}

func statOwn(path string) (stat, error) {
	dir, err := openRootDir(filepath.Dir(path))
	if err != nil {
		return stat{}, err
	}
	defer dir.close()
	return dir.dir().stat(filepath.Base(path))
}

// saveIndex replaces the index. It is not synced: after a crash of the machine it
// may be torn, which its checksum tells.
func saveIndex(fsys vfs.FS, path string, x *index) error {
	dir := filepath.Dir(path)
	if err := vfs.MkdirAll(fsys, dir); err != nil {
		return pathError("save index", path, err)
	}
	temp := filepath.Join(dir, ".segno-"+rand.Text())
	f, err := fsys.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return pathError("save index", path, err)
	}
	_, err = f.Write(x.encode())
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = replaceIndex(fsys, temp, path)
	}
	if err != nil {
		_ = fsys.Remove(temp) // it is stray at worst; the first error is the one to tell
		return pathError("save index", path, err)
	}
	return nil
}

// replaceIndex renames a new index to path. It removes the old one first: ext4 starts
// writing a file to the disk when it is renamed onto another one, and that took longer
// than creating and filling the new index. A process that scans between the two calls
// finds no index and reads every file.
func replaceIndex(fsys vfs.FS, temp, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.Rename(temp, path)
}
