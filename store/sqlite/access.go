package sqlite

import "golang.org/x/sys/unix"

// canWrite reports whether this process may write a file, or files in a directory.
func canWrite(name string) bool { return unix.Access(name, unix.W_OK) == nil }
