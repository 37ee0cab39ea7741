// Package sessionfile is what the transcripts of all agents share: it reads the lines of a
// session's file, lists its bytes in objects of the store, and writes a new file that appears
// only when it is complete. Only the packages below transcript use it.
//
// A [Log] lists the bytes of a transcript. docs/format.md specifies its encoding.
package sessionfile
