//go:build !unix

package workspace

import "io/fs"

// uidOf returns 0: files have no numeric owner here.
func uidOf(fs.FileInfo) uint32 { return 0 }
