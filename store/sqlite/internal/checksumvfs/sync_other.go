//go:build !linux

package checksumvfs

// replaceSync does nothing, because SQLite's own method is the right one on macOS: it syncs with F_FULLFSYNC.
func (x *file) replaceSync(uintptr) {}
