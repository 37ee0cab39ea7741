package workspace

import (
	"io/fs"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
)

// stat is the metadata that shows whether a file changed.
type stat struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64  // nanoseconds since 1970
	mode         uint32 // st_mode: the type and the permission bits
	nlink        uint32
	uid, gid     uint32
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
	setIDs      = 0o6000 // setuid and setgid: the bits that grant an owner's rights
)

// from sets s from a stat of the kernel.
func (s *stat) from(sys *unix.Stat_t) {
	*s = stat{
		dev: uint64(sys.Dev), ino: sys.Ino, size: sys.Size, mode: uint32(sys.Mode), nlink: uint32(sys.Nlink),
		mtime: nanoseconds(int64(sys.Mtim.Sec), int64(sys.Mtim.Nsec)),
		ctime: nanoseconds(int64(sys.Ctim.Sec), int64(sys.Ctim.Nsec)), uid: sys.Uid, gid: sys.Gid,
	}
}

// bytes returns the memory of s.
func (s *stat) bytes() []byte { return (*[unsafe.Sizeof(*s)]byte)(unsafe.Pointer(s))[:] }

// sysStat returns the kernel's stat in fi. The structures of the two packages both have the
// layout of the kernel.
func sysStat(fi fs.FileInfo) *unix.Stat_t {
	return (*unix.Stat_t)(unsafe.Pointer(fi.Sys().(*syscall.Stat_t)))
}

// statOf returns the stat of a result of package os or of a [vfs.Root].
func statOf(fi fs.FileInfo) (st stat) {
	st.from(sysStat(fi))
	return st
}

// isForeign reports whether a user id differs from the one of this process.
func isForeign(uid uint32) bool { return int64(uid) != int64(os.Geteuid()) }

func (s *stat) is(kind uint32) bool { return s.mode&typeMask == kind }
func (s *stat) perm() uint32        { return s.mode & permMask }

// owner returns the owner that a snapshot records, or the zero Owner without setuid and setgid.
func (s *stat) owner() segno.Owner {
	if s.mode&setIDs == 0 {
		return segno.Owner{}
	}
	return segno.Owner{Known: true, UID: s.uid, GID: s.gid}
}

// isSameFile reports whether two names belong to the same file.
func (s *stat) isSameFile(o *stat) bool { return s.ino == o.ino && s.dev == o.dev }

// nanoseconds combines the parts of a time. A time outside the range of the result becomes the
// end of the range, in the year 1677 or 2262.
func nanoseconds(sec, nsec int64) int64 {
	const limit = 9223372035 // the most seconds that fit with any number of nanoseconds
	if sec > limit {
		return limit*1e9 + 999999999
	}
	if sec < -limit {
		return -limit * 1e9
	}
	return sec*1e9 + nsec
}

// fileMode converts the bits of chmod(2) to those of package fs.
func fileMode(mode uint32) fs.FileMode {
	out := fs.FileMode(mode & 0o777)
	for unix, bit := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&unix != 0 {
			out |= bit
		}
	}
	return out
}
