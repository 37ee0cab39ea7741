package vfs

import "golang.org/x/sys/unix"

// WriteBack asks the kernel to start writing a range of f to the disk, so that a later
// Sync has less left to wait for. It is a hint: Sync alone makes the range durable.
func WriteBack(f File, offset, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE)
}
