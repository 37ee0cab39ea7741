package checksumvfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// frameHeaderSize is the size of the header of a frame, which is a page in a write-ahead log.
const frameHeaderSize = 24

// frame makes one system call of the two by which SQLite writes a frame: one for the header and one for the page. With small
// pages, the calls cost more than what they write.
//
// It keeps a header until the next call, only if that header is behind the frame that the last call completed. SQLite then
// writes the page next, whatever happens. It also writes single headers again, those of a transaction that is larger than the cache.
// They are never behind the last frame, so frame does not keep them.
type frame struct {
	header [frameHeaderSize]byte
	kept   int64 // the offset of the kept header; -1 for none
	page   int64 // the offset behind a header that the last call wrote; -1 after another call
	end    int64 // the offset behind a frame that the last call completed; -1 after another call
}

// joinFrames replaces the method xWrite of a log.
func (x *file) joinFrames() {
	x.frame = frame{kept: -1, page: -1, end: -1}
	x.methods.FxWrite = address(writeFrame)
}

// writeFrame is the method xWrite of a log.
func writeFrame(tls *libc.TLS, f, buf uintptr, size int32, offset int64) int32 {
	x := fileOf(f)
	data, end := unsafe.Slice(at[byte](buf), size), offset+int64(size)
	if x.frame.kept >= 0 {
		if offset == x.frame.kept+frameHeaderSize && x.frame.write(f, data) {
			x.frame.kept, x.frame.end = -1, end
			return sqlite3.SQLITE_OK
		}
		if code := x.writeKept(tls, f); code != sqlite3.SQLITE_OK { // also the reason of an incomplete write
			return code
		}
	}
	isHeader, isPage, follows := size == frameHeaderSize, offset == x.frame.page, offset == x.frame.end
	x.frame.page, x.frame.end = -1, -1
	if isHeader && follows {
		x.frame.header = *at[[frameHeaderSize]byte](buf)
		x.frame.kept = offset
		return sqlite3.SQLITE_OK
	}
	code := function[readFunc](x.base.FxWrite)(tls, f, buf, size, offset)
	if code == sqlite3.SQLITE_OK && isHeader {
		x.frame.page = end
	} else if code == sqlite3.SQLITE_OK && isPage {
		x.frame.end = end
	}
	return code
}

// write writes the kept header and its page. It returns false unless it has written all of it.
func (r *frame) write(f uintptr, page []byte) bool {
	n, err := unix.Pwritev(int(at[sqlite3.TunixFile](f).Fh), [][]byte{r.header[:], page}, r.kept)
	return err == nil && n == frameHeaderSize+len(page)
}

// writeKept writes the kept header alone.
func (x *file) writeKept(tls *libc.TLS, f uintptr) int32 {
	offset := x.frame.kept
	x.frame.kept, x.frame.page, x.frame.end = -1, offset+frameHeaderSize, -1
	return function[readFunc](x.base.FxWrite)(tls, f, uintptr(unsafe.Pointer(&x.frame.header)), frameHeaderSize, offset)
}
