//go:build !linux

package memdir

// isUsable reports false: the place of a file system in memory is known only on Linux.
func isUsable(string) bool { return false }
