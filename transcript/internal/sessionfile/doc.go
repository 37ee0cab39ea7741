// Package sessionfile has the code that the transcripts of all agents share. It reads the lines of
// a session's file, lists its bytes in objects of the store, and writes a new file that appears
// only when it is complete. Only packages below transcript use it.
//
// A [Log] lists the bytes of a transcript. docs/format.md specifies its encoding.
package sessionfile
