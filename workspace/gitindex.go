package workspace

import (
	"encoding/binary"
	"strings"
)

// readGitIndex returns the paths that a git index of version 2, 3 or 4 tracks. A path with a
// final slash is a directory of a sparse index, which tracks everything below it. ok is false
// if the format is unknown or the index is damaged: another version, or a split index. The
// format is described in git's Documentation/gitformat-index.txt.
func readGitIndex(data []byte) (paths []string, ok bool) {
	// The index does not contain the length of its hashes, but it can only be parsed with one
	// length.
	for _, hash := range []int{20, 32} {
		r := gitIndexReader{codec: codec{in: string(data)}, hash: hash}
		if r.index(); r.err == nil {
			return r.paths, true
		}
	}
	return nil, false
}

// gitIndexReader reads an index with hashes of a given length.
type gitIndexReader struct {
	codec
	hash    int
	version uint32
	name    string // of the newest entry
	paths   []string
}

func bigEndian(s string) uint32 { return binary.BigEndian.Uint32([]byte(s)) }

func (r *gitIndexReader) index() {
	head := r.take(12)
	if len(r.in) < r.hash || head == "" || head[:4] != "DIRC" {
		r.fail("not an index")
		return
	}
	r.in = r.in[:len(r.in)-r.hash] // without the checksum
	if r.version = bigEndian(head[4:]); r.version < 2 || r.version > 4 {
		r.fail("an unsupported version")
	}
	for count := bigEndian(head[8:]); count > 0 && r.err == nil; count-- {
		r.entry()
	}
	r.extensions()
}

func (r *gitIndexReader) entry() {
	const times, extended, dirMode = 40, 0x4000, 0o40000
	head := r.take(uint64(times + r.hash + 2))
	if head == "" {
		return
	}
	size := len(head)
	if flags := binary.BigEndian.Uint16([]byte(head[times+r.hash:])); r.version >= 3 && flags&extended != 0 {
		size += len(r.take(2))
	}
	if r.version == 4 { // the number of bytes to drop from the end of the last name, and the bytes to append
		drop := r.offset()
		if drop > uint64(len(r.name)) {
			r.fail("a name that is too short")
			return
		}
		r.name = r.name[:len(r.name)-int(drop)] + r.untilZero()
	} else {
		r.name = r.untilZero()
		size += len(r.name) + 1
		r.take(uint64(-size & 7)) // zeros up to a multiple of 8
	}
	path := r.name
	if bigEndian(head[24:]) == dirMode {
		path = strings.TrimSuffix(path, "/") + "/"
	}
	r.paths = append(r.paths, path)
}

// untilZero reads a string that ends with a zero byte.
func (r *gitIndexReader) untilZero() string {
	end := strings.IndexByte(r.in, 0)
	if end < 0 {
		r.fail("an unterminated name")
		return ""
	}
	return r.take(uint64(end) + 1)[:end]
}

// offset reads the integer encoding of offset deltas in packs.
func (r *gitIndexReader) offset() (value uint64) {
	for n := range 9 {
		b := r.take(1)
		if b == "" {
			return 0
		}
		if n > 0 {
			value++
		}
		if value = value<<7 | uint64(b[0]&0x7f); b[0] < 0x80 {
			return value
		}
	}
	r.fail("a number out of range")
	return 0
}

// extensions reads the rest of the index. A reader must understand each extension whose name is
// in lower case; this reader only understands that of sparse indexes.
func (r *gitIndexReader) extensions() {
	for len(r.in) > 0 {
		head := r.take(8)
		if head == "" {
			return
		}
		if head[0] >= 'a' && head[:4] != "sdir" {
			r.fail("an unknown extension")
		}
		r.take(uint64(bigEndian(head[4:])))
	}
}
