package checksumvfs

import (
	"encoding/binary"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// log collects what SQLite writes to a write-ahead log, to write it with one system call. SQLite makes two calls for
// each frame, one for its header and one for its page, and with small pages these calls cost more than what they write.
//
// Before a commit, only the connection that wrote a frame reads it. So the frames are written together with the last
// frame of the commit, whose header has the commit mark, or before another use of the file. An error is the result of
// SQLite's call at that time.
type log struct {
	buf      uintptr // outside of Go's heap
	size     int32   // of the collected bytes
	end      int64   // the offset in the file after the newest call; -1 if the file was used in another way since
	isCommit bool    // the newest header of a frame has the commit mark
	sync     uintptr // the method xSync without log
}

const (
	logBufferSize = 32 << 10
	// frameHeaderSize is the size of the header of a frame. No other call has this size.
	frameHeaderSize = 24
	// frameCommitMark is the offset of 4 bytes of the header: for the last frame of a commit the size of the database in
	// pages, else zero.
	frameCommitMark = 4
)

type (
	syncFunc     = func(tls *libc.TLS, file uintptr, flags int32) int32
	truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32
	sizeFunc     = func(tls *libc.TLS, file, size uintptr) int32
	closeFunc    = func(tls *libc.TLS, file uintptr) int32
)

// collectWrites replaces methods of a write-ahead log. It replaces none without memory for the buffer, and for a database
// with the parameter psow=0. SQLite then repeats the last frame of a commit, and writes parts of it after the sync.
func (x *file) collectWrites(tls *libc.TLS, name uintptr) {
	psow, err := libc.CString("psow")
	if err != nil {
		return
	}
	defer libc.Xfree(tls, psow)
	if sqlite3.Xsqlite3_uri_boolean(tls, name, psow, 1) == 0 {
		return
	}
	x.log = log{buf: libc.Xmalloc(tls, logBufferSize), end: -1, sync: x.methods.FxSync}
	if x.log.buf == 0 {
		return
	}
	x.methods.FxWrite, x.methods.FxRead, x.methods.FxSync = address(writeLog), address(readLog), address(syncLog)
	x.methods.FxTruncate, x.methods.FxFileSize, x.methods.FxClose = address(truncateLog), address(sizeLog), address(closeLog)
}

// writeLog is the method xWrite of a log.
func writeLog(tls *libc.TLS, f, buf uintptr, size int32, offset int64) int32 {
	x := fileOf(f)
	l := &x.log
	data := unsafe.Slice(at[byte](buf), size)
	follows, isHeader := offset == l.end, size == frameHeaderSize
	if isHeader {
		l.isCommit = binary.BigEndian.Uint32(data[frameCommitMark:]) != 0
	}
	if !follows || size > logBufferSize-l.size {
		if code := x.flush(tls, f); code != sqlite3.SQLITE_OK {
			return code
		}
	}
	if size > logBufferSize {
		return function[readFunc](x.base.FxWrite)(tls, f, buf, size, offset)
	}
	copy(unsafe.Slice(at[byte](l.buf), logBufferSize)[l.size:], data)
	l.size, l.end = l.size+size, offset+int64(size)
	// The page of a last frame follows its header. A header that does not follow the frame before it has its page
	// already: SQLite writes it again if it has changed frames of a large transaction.
	if l.isCommit && !(isHeader && follows) {
		return x.writeCollected(tls, f)
	}
	return sqlite3.SQLITE_OK
}

// writeCollected writes the collected bytes. After an error they are lost, because SQLite then ends the transaction.
func (x *file) writeCollected(tls *libc.TLS, f uintptr) int32 {
	size := x.log.size
	if size == 0 {
		return sqlite3.SQLITE_OK
	}
	x.log.size = 0
	return function[readFunc](x.base.FxWrite)(tls, f, x.log.buf, size, x.log.end-int64(size))
}

// flush is writeCollected before another use of the file.
func (x *file) flush(tls *libc.TLS, f uintptr) int32 {
	code := x.writeCollected(tls, f)
	x.log.end = -1
	return code
}

func readLog(tls *libc.TLS, f, buf uintptr, size int32, offset int64) int32 {
	x := fileOf(f)
	if code := x.flush(tls, f); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[readFunc](x.base.FxRead)(tls, f, buf, size, offset)
}

func syncLog(tls *libc.TLS, f uintptr, flags int32) int32 {
	x := fileOf(f)
	if code := x.flush(tls, f); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[syncFunc](x.log.sync)(tls, f, flags)
}

func truncateLog(tls *libc.TLS, f uintptr, size int64) int32 {
	x := fileOf(f)
	if code := x.flush(tls, f); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[truncateFunc](x.base.FxTruncate)(tls, f, size)
}

func sizeLog(tls *libc.TLS, f, size uintptr) int32 {
	x := fileOf(f)
	if code := x.flush(tls, f); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[sizeFunc](x.base.FxFileSize)(tls, f, size)
}

// closeLog does not write what is collected, because it belongs to a transaction without a commit.
func closeLog(tls *libc.TLS, f uintptr) int32 {
	x := fileOf(f)
	libc.Xfree(tls, x.log.buf)
	return function[closeFunc](x.base.FxClose)(tls, f)
}
