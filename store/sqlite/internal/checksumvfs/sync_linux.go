package checksumvfs

import (
	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

type syncFunc = func(tls *libc.TLS, file uintptr, flags int32) int32

// replaceCalls makes syncData the method xSync of a file, and writeFrame the method xWrite of a log, if base is SQLite's own VFS for
// Linux, in which files have the type unixFile.
func (x *file) replaceCalls(base uintptr, isDatabase bool) {
	x.frame.kept = -1
	if libc.GoString(at[sqlite3.Tsqlite3_vfs](base).FzName) != "unix" {
		return
	}
	x.methods.FxSync = address(syncData)
	if !isDatabase {
		x.joinFrames()
	}
}

// syncData is the method xSync. It calls fdatasync(2), as SQLite does if its build knows that function. The translated
// SQLite calls fsync(2), which also waits until the time of the last change is on disk. Both make the content and the
// size of a file durable. Once the log has its full length, a commit changes only content and that time, so
// fdatasync needs no transaction of the file system's journal.
func syncData(tls *libc.TLS, f uintptr, flags int32) int32 {
	if x := fileOf(f); x.frame.kept >= 0 { // without psow, SQLite may sync the log between a header and its page
		if code := x.writeKept(tls, f); code != sqlite3.SQLITE_OK {
			return code
		}
	}
	unixFile := at[sqlite3.TunixFile](f)
	if unixFile.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC != 0 { // the file is new: the default method also syncs its directory
		return function[syncFunc](fileOf(f).base.FxSync)(tls, f, flags)
	}
	err := unix.Fdatasync(int(unixFile.Fh))
	for err == unix.EINTR {
		err = unix.Fdatasync(int(unixFile.Fh))
	}
	if err != nil {
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	return sqlite3.SQLITE_OK
}
