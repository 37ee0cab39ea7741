package workspace

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// readGitIndex returns the paths that a git index of version 2, 3 or 4 tracks. A path with a
// final slash is a directory of a sparse index, which tracks everything below. ok is false if
// the format is unknown: another version, a split index, damage.
// The format is git's Documentation/gitformat-index.txt.
func readGitIndex(data []byte) (paths []string, ok bool) {
	// The index does not contain the length of its hashes, but only one length fits.
	for _, hash := range []int{20, 32} {
		if paths, ok := readGitIndexOf(data, hash); ok {
			return paths, true
		}
	}
	return nil, false
}

// gitDirMode is the mode of an entry that represents a whole directory.
const gitDirMode = 0o40000

// readGitIndexOf reads an index with hashes of a given length.
func readGitIndexOf(data []byte, hash int) (paths []string, ok bool) {
	if len(data) < 12+hash || string(data[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return nil, false
	}
	r := gitIndexReader{rest: data[12 : len(data)-hash], version: version, hash: hash}
	for range count {
		mode, ok := r.entry()
		if !ok {
			return nil, false
		}
		name := string(r.name)
		if mode == gitDirMode {
			name = strings.TrimSuffix(name, "/") + "/"
		}
		paths = append(paths, name)
	}
	return paths, r.extensions()
}

type gitIndexReader struct {
	rest    []byte
	version uint32
	hash    int
	name    []byte // of the newest entry
}

// entry reads one entry and leaves its name in r.name.
func (r *gitIndexReader) entry() (mode uint32, ok bool) {
	const times, extended = 40, 0x4000
	head := times + r.hash + 2
	if len(r.rest) < head {
		return 0, false
	}
	mode = binary.BigEndian.Uint32(r.rest[24:])
	if flags := binary.BigEndian.Uint16(r.rest[times+r.hash:]); r.version >= 3 && flags&extended != 0 {
		head += 2
	}
	if len(r.rest) < head {
		return 0, false
	}
	if r.version == 4 {
		return mode, r.compressedName(head)
	}
	end := bytes.IndexByte(r.rest[head:], 0)
	if end < 0 {
		return 0, false
	}
	r.name = r.rest[head : head+end]
	size := (head + end + 8) &^ 7 // at least one zero byte follows a name
	if len(r.rest) < size {
		return 0, false
	}
	r.rest = r.rest[size:]
	return mode, true
}

// compressedName reads a name of version 4: a number of bytes to drop from the end of the
// name before it, and the bytes to append to the rest.
func (r *gitIndexReader) compressedName(head int) bool {
	rest := r.rest[head:]
	drop, n := gitVarint(rest)
	if n == 0 || drop > uint64(len(r.name)) {
		return false
	}
	end := bytes.IndexByte(rest[n:], 0)
	if end < 0 {
		return false
	}
	r.name = append(r.name[:len(r.name)-int(drop):len(r.name)-int(drop)], rest[n:n+end]...)
	r.rest = rest[n+end+1:]
	return true
}

// gitVarint reads the integer encoding of packs' offset deltas, and how long it is.
func gitVarint(b []byte) (value uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		if n++; n > 1 {
			value++
		}
		value = value<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return value, n
		}
	}
	return 0, 0
}

// extensions reads to the end. An extension in lower case must be understood; of
// those only the one of sparse indexes is.
func (r *gitIndexReader) extensions() bool {
	for len(r.rest) > 0 {
		if len(r.rest) < 8 {
			return false
		}
		name, size := string(r.rest[:4]), binary.BigEndian.Uint32(r.rest[4:])
		if uint64(size) > uint64(len(r.rest)-8) || name[0] >= 'a' && name != "sdir" {
			return false
		}
		r.rest = r.rest[8+size:]
	}
	return true
}
