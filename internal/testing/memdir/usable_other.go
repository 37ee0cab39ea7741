//go:build !linux

package memdir

// isUsable returns false: only Linux has a file system in memory at a known path.
func isUsable(string) bool { return false }
