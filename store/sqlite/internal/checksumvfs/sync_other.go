//go:build !linux

package checksumvfs

// frame joins the two writes of a frame only on Linux.
type frame struct{}

// replaceCalls does nothing, because SQLite's own method of syncing is the right one on macOS: it syncs with F_FULLFSYNC.
func (x *file) replaceCalls(uintptr, bool) {}
