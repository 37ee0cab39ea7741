//go:build !portable

package vfs

import "syscall"

// WriteBack asks the kernel to start writing a range of f to the disk, so that a later
// Sync has less left to wait for. It is a hint: Sync alone makes the range durable.
func WriteBack(f File, offset, length int64) {
	const write = 2 // SYNC_FILE_RANGE_WRITE
	_ = syscall.SyncFileRange(int(f.Fd()), offset, length, write)
}
