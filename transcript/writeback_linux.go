package transcript

import "syscall"

// writeback lets the disk begin to write n bytes at offset, so that less is left
// to wait for when the file is synced. It promises nothing.
func writeback(fd uintptr, offset, n int64) {
	const write = 2 // SYNC_FILE_RANGE_WRITE
	_ = syscall.SyncFileRange(int(fd), offset, n, write)
}
