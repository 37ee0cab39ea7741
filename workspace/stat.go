package workspace

import "github.com/dalsegno/segno"

// stat is what tells a changed file from an unchanged one.
type stat struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64  // nanoseconds since 1970
	mode         uint32 // st_mode: the type and the permission bits
	nlink        uint32
	uid, gid     uint32 // the owner, if the mode has setuid or setgid; else zero
}

// The parts of st_mode, which are the same on every Unix.
const (
	typeMask    = 0o170000
	typeFIFO    = 0o010000
	typeDir     = 0o040000
	typeFile    = 0o100000
	typeSymlink = 0o120000
	typeSocket  = 0o140000
	permMask    = 0o7777
	setIDs      = 0o6000 // setuid and setgid: the bits that lend an owner's rights
)

func (s *stat) is(kind uint32) bool { return s.mode&typeMask == kind }
func (s *stat) perm() uint32        { return s.mode & permMask }

// lends reports whether setuid or setgid is set, so that the owner matters.
func (s *stat) lends() bool { return s.mode&setIDs != 0 }

// owner returns the owner that a snapshot records: none without setuid and setgid.
func (s *stat) owner() segno.Owner {
	if !s.lends() {
		return segno.Owner{}
	}
	return segno.Owner{Known: true, UID: s.uid, GID: s.gid}
}

// same reports whether two names lead to one file.
func (s *stat) same(o *stat) bool { return s.ino == o.ino && s.dev == o.dev }
