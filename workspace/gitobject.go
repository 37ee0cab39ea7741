package workspace

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// gitObjects reads objects from the object store of a repository: loose objects and packs.
// It does not run git, which might refresh its index or run a program that the repository names. It
// does not read objects that the repository borrows from other repositories.
type gitObjects struct {
	dir   *gitDir // the common directory
	packs []*gitPack
	found bool  // whether the packs are open
	taken int64 // the number of bytes decompressed, and of those in the paths of diff
}

// The limits against hostile repositories.
const (
	maxGitObject  = 8 << 20   // the size of an object
	maxGitObjects = 256 << 20 // the size of all objects
	maxGitPath    = 4096      // the length of a path; Linux has no longer ones
	maxDeltas     = 512       // the length of a chain of deltas; git makes 50 by default
)

var (
	errGitObject = errors.New("the object cannot be read")
	errGitLarge  = errors.New("the object is too large")
)

func (g *gitObjects) close() {
	for _, p := range g.packs {
		p.index.close()
		p.data.close()
	}
}

// read returns the type and the content of an object.
func (g *gitObjects) read(id string) (kind string, data []byte, err error) {
	if commitName(id) == "" {
		return "", nil, errGitObject
	}
	f, _, err := g.dir.openRegular(path.Join("objects", id[:2], id[2:]))
	if err == nil {
		defer f.close()
		return g.readLoose(f)
	}
	if err := g.openPacks(int64(len(id) / 2)); err != nil {
		return "", nil, err
	}
	name, _ := hex.DecodeString(id)
	for _, p := range g.packs {
		if at, ok := p.find(name); ok {
			return g.readPacked(p, at, 0)
		}
	}
	return "", nil, errGitObject
}

// readLoose reads an object that is a separate file.
func (g *gitObjects) readLoose(f io.Reader) (kind string, data []byte, err error) {
	text, err := g.inflate(f)
	if err != nil {
		return "", nil, err
	}
	head, data, ok := bytes.Cut(text, []byte{0})
	kind, size, spaced := strings.Cut(string(head), " ")
	if n, err := strconv.Atoi(size); !ok || !spaced || err != nil || n != len(data) {
		return "", nil, errGitObject
	}
	return kind, data, nil
}

// inflate decompresses one object.
func (g *gitObjects) inflate(from io.Reader) ([]byte, error) {
	z, err := zlib.NewReader(from)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	most := min(maxGitObject, maxGitObjects-g.taken)
	data, err := io.ReadAll(io.LimitReader(z, most+1))
	if g.taken += int64(len(data)); err == nil && int64(len(data)) > most {
		err = errGitLarge
	}
	return data, err
}

// gitPack is an open pack and its index of version 2.
type gitPack struct {
	index, data *fileHandle
	count       int64
	hashSize    int64
}

// ReadAt implements [io.ReaderAt].
func (f *fileHandle) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		if more, err = unix.Pread(f.fd, p[n:], at+int64(n)); err == unix.EINTR {
			err = nil
		} else if err == nil && more == 0 {
			err = io.EOF
		}
		n += max(0, more)
	}
	return n, err
}

// openPacks opens the packs, if they are not open yet. hashSize is the length of object names.
func (g *gitObjects) openPacks(hashSize int64) error {
	if g.found {
		return nil
	}
	g.found = true
	names, err := g.dir.names("objects/pack")
	if err != nil {
		return err
	}
	for _, name := range names {
		base, isIndex := strings.CutSuffix(path.Join("objects/pack", name), ".idx")
		if !isIndex {
			continue
		}
		p := &gitPack{hashSize: hashSize}
		if p.index, _, err = g.dir.openRegular(base + ".idx"); err != nil {
			return err
		}
		if p.data, _, err = g.dir.openRegular(base + ".pack"); err != nil {
			p.index.close()
			continue // git removes the index after the pack
		}
		g.packs = append(g.packs, p)
		head := make([]byte, 8)
		if _, err := p.index.ReadAt(head, 0); err != nil || string(head) != "\xfftOc\x00\x00\x00\x02" {
			return errGitObject
		}
		p.count = int64(p.number(8 + 255*4))
	}
	return nil
}

// number reads a number of four bytes from the index, or returns 0.
func (p *gitPack) number(at int64) uint32 {
	b := make([]byte, 4)
	if _, err := p.index.ReadAt(b, at); err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// find returns the position of an object in the pack.
func (p *gitPack) find(name []byte) (at int64, ok bool) {
	const fanout, names = 8, 8 + 256*4
	if int64(len(name)) != p.hashSize {
		return 0, false
	}
	from, to := int64(0), int64(p.number(fanout+int64(name[0])*4))
	if name[0] > 0 {
		from = int64(p.number(fanout + int64(name[0]-1)*4))
	}
	if from > to || to > p.count {
		return 0, false
	}
	got := make([]byte, p.hashSize)
	compare := func(i int64) int {
		if _, err := p.index.ReadAt(got, names+i*p.hashSize); err != nil {
			return 1
		}
		return bytes.Compare(got, name)
	}
	i := from + int64(sort.Search(int(to-from), func(n int) bool { return compare(from+int64(n)) >= 0 }))
	if i >= to || compare(i) != 0 {
		return 0, false
	}
	offsets := names + p.count*(p.hashSize+4)
	short := p.number(offsets + i*4)
	if short&(1<<31) == 0 {
		return int64(short), true
	}
	long := make([]byte, 8)
	if _, err := p.index.ReadAt(long, offsets+p.count*4+int64(short&^(1<<31))*8); err != nil {
		return 0, false
	}
	at = int64(binary.BigEndian.Uint64(long))
	return at, at > 0
}

// readPacked reads the object at a position of a pack. depth is the number of deltas that lead to
// this object.
func (g *gitObjects) readPacked(p *gitPack, at int64, depth int) (kind string, data []byte, err error) {
	h, err := p.readHeader(at)
	if err != nil || depth > maxDeltas {
		return "", nil, errGitObject
	}
	if data, err = g.inflate(io.NewSectionReader(p.data, at+h.size, 1<<62-h.size)); err != nil {
		return "", nil, err
	}
	var from []byte
	switch h.code {
	case packedCommit:
		return "commit", data, nil
	case packedTree:
		return "tree", data, nil
	case packedFile:
		return "blob", data, nil
	case packedTag:
		return "tag", data, nil
	case packedOffsetDelta:
		kind, from, err = g.readPacked(p, at-h.baseAt, depth+1)
	case packedNamedDelta:
		kind, from, err = g.readBase(p, h.base, depth+1)
	default:
		return "", nil, errGitObject
	}
	if err == nil {
		data, err = applyDelta(from, data)
		g.taken += int64(len(data))
	}
	return kind, data, err
}

// The types of the objects in a pack.
const (
	packedCommit      = 1
	packedTree        = 2
	packedFile        = 3
	packedTag         = 4
	packedOffsetDelta = 6 // a delta of an earlier object of the pack
	packedNamedDelta  = 7 // a delta of a named object
)

// packedHeader is what precedes the compressed data of an object in a pack.
type packedHeader struct {
	code   byte
	size   int64  // of the header
	baseAt int64  // of packedOffsetDelta: how far the base is before the object
	base   string // of packedNamedDelta: the name of the base
}

func (p *gitPack) readHeader(at int64) (h packedHeader, err error) {
	head := make([]byte, 64)
	n, err := p.data.ReadAt(head, at)
	if n < 2 || err != nil && err != io.EOF {
		return h, errGitObject
	}
	i := 1
	for i < n && head[i-1]&0x80 != 0 {
		i++
	}
	if i+int(p.hashSize) > n {
		return h, errGitObject
	}
	switch h.code = head[0] >> 4 & 7; h.code {
	case packedOffsetDelta:
		h.baseAt = int64(head[i] & 0x7f)
		for ; i < n-1 && head[i]&0x80 != 0; i++ {
			h.baseAt = (h.baseAt+1)<<7 | int64(head[i+1]&0x7f)
		}
		i++
		if h.baseAt <= 0 || h.baseAt >= at {
			return h, errGitObject
		}
	case packedNamedDelta:
		h.base = hex.EncodeToString(head[i : i+int(p.hashSize)])
		i += int(p.hashSize)
	}
	h.size = int64(i)
	return h, nil
}

// readBase reads the object in the same pack that is the base of a delta.
func (g *gitObjects) readBase(p *gitPack, id string, depth int) (kind string, data []byte, err error) {
	name, err := hex.DecodeString(id)
	if err != nil {
		return "", nil, err
	}
	if at, ok := p.find(name); ok {
		return g.readPacked(p, at, depth)
	}
	return "", nil, errGitObject
}

// applyDelta applies a delta to the object from.
func applyDelta(from, delta []byte) ([]byte, error) {
	_, delta = deltaSize(delta)
	size, delta := deltaSize(delta)
	if size > maxGitObject {
		return nil, errGitLarge
	}
	out := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 { // insert the next op bytes of the delta
			if op == 0 || int(op) > len(delta) {
				return nil, errGitObject
			}
			out, delta = append(out, delta[:op]...), delta[op:]
			continue
		}
		var offset, n uint32 // copy a part of the other object
		for bit := range 7 {
			if op&(1<<bit) == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, errGitObject
			}
			if bit < 4 {
				offset |= uint32(delta[0]) << (8 * bit)
			} else {
				n |= uint32(delta[0]) << (8 * (bit - 4))
			}
			delta = delta[1:]
		}
		if n == 0 {
			n = 0x10000
		}
		if uint64(offset)+uint64(n) > uint64(len(from)) || len(out)+int(n) > maxGitObject {
			return nil, errGitObject
		}
		out = append(out, from[offset:offset+n]...)
	}
	if len(out) != int(size) {
		return nil, errGitObject
	}
	return out, nil
}

// deltaSize reads one of the two sizes at the beginning of a delta.
func deltaSize(delta []byte) (size uint64, rest []byte) {
	for i, b := range delta {
		if i > 8 {
			break
		}
		if size |= uint64(b&0x7f) << (7 * i); b&0x80 == 0 {
			return size, delta[i+1:]
		}
	}
	return maxGitObject + 1, nil
}

// commit returns the tree and the parents of a commit.
func (g *gitObjects) commit(id string) (tree string, parents []string, err error) {
	kind, data, err := g.read(id)
	if err != nil || kind != "commit" {
		return "", nil, errors.Join(errGitObject, err)
	}
	tree, parents = parseGitCommit(data)
	return tree, parents, nil
}

// parseGitCommit returns the tree and the parents that the content of a commit names.
func parseGitCommit(data []byte) (tree string, parents []string) {
	for line := range strings.SplitSeq(string(data), "\n") {
		switch name, value, _ := strings.Cut(line, " "); {
		case name == "tree" && tree == "":
			tree = commitName(value)
		case name == "parent":
			parents = append(parents, value)
		default:
			return tree, parents
		}
	}
	return tree, parents
}

// gitEntry is an entry of a tree.
type gitEntry struct {
	mode string // "40000" for a tree, "120000" for a symlink, "160000" for a submodule
	id   string
}

// tree returns the entries of a tree by name, or none if id is "".
func (g *gitObjects) tree(id string) (map[string]gitEntry, error) {
	entries := map[string]gitEntry{}
	if id == "" {
		return entries, nil
	}
	kind, data, err := g.read(id)
	if err != nil || kind != "tree" {
		return nil, errors.Join(errGitObject, err)
	}
	size := len(id) / 2
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !ok || !spaced || len(rest) < size {
			return nil, errGitObject
		}
		entries[name] = gitEntry{mode, fmt.Sprintf("%x", rest[:size])}
		data = rest[size:]
	}
	return entries, nil
}

const gitTreeMode = "40000"

// diff calls visit for each path that differs between two trees, with both entries.
func (g *gitObjects) diff(a, b, at string, visit func(path string, a, b gitEntry) error) error {
	if a == b {
		return nil
	}
	if err := g.takePath(at); err != nil {
		return err
	}
	left, err := g.tree(a)
	if err != nil {
		return err
	}
	right, err := g.tree(b)
	if err != nil {
		return err
	}
	for name, r := range right {
		if _, both := left[name]; !both {
			left[name] = gitEntry{}
		} else if left[name] == r {
			delete(left, name)
		}
	}
	for name, l := range left {
		r := right[name]
		inner := [2]string{}
		for i, e := range []*gitEntry{&l, &r} {
			if e.mode == gitTreeMode {
				inner[i], *e = e.id, gitEntry{}
			}
		}
		if inner != [2]string{} {
			if err := g.diff(inner[0], inner[1], path.Join(at, name), visit); err != nil {
				return err
			}
		}
		if l != r {
			p := path.Join(at, name)
			if err := errors.Join(g.takePath(p), visit(p, l, r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// takePath counts a path in the limit of all objects: a tree that contains itself has endless ones.
func (g *gitObjects) takePath(p string) error {
	if g.taken += int64(len(p)); g.taken > maxGitObjects || len(p) > maxGitPath {
		return errGitLarge
	}
	return nil
}
