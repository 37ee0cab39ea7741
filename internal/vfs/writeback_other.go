//go:build !linux || portable

package vfs

// WriteBack does nothing: this system has no such hint.
func WriteBack(File, int64, int64) {}
