package sqlite

import (
	"github.com/dalsegno/segno/internal/vfs"
	"golang.org/x/sys/unix"
)

// writeBack has the kernel begin to write a stretch of a file, so that the sync at
// its end finds little left to do. It is a hint: what it cannot do the sync does.
func writeBack(f vfs.File, from, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, length, unix.SYNC_FILE_RANGE_WRITE)
}
