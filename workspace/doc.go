// Package workspace saves, compares, restores and forks the directory tree an
// agent works in. [Open] returns a [Dir], which is a [segno.Workspace].
//
// # What is saved
//
// Everything under the root, inside and outside git, tracked or not: contents,
// permission bits with setuid, setgid and sticky, symlinks as links (nothing is
// ever followed), hard links among the tree's own files, user extended
// attributes, empty directories, modification times of files, and names of any
// bytes. Owners, other extended attributes, and the root directory's own mode are
// not.
//
// Some paths are protected: recorded with the reason, not stored, and never
// touched by a restore. They are .git (but a .git file, of a submodule or a linked
// worktree, is saved, and restored when it is gone), directories that can be made again (a name
// and a marker beside or inside it; see rules), directories with a CACHEDIR.TAG,
// files over 64 MiB, files over 8 MiB that git ignores, FIFOs, sockets and
// devices, what could not be read, and what the root's .segnoignore names. That
// file has gitignore's syntax: a pattern a line, # for comments, a final / for
// directories alone, a / elsewhere to anchor the pattern at the root, *, ?, [a-z]
// and **; the last line that matches wins. A line that begins with ! takes back
// an earlier one, or a directory's protection as one that can be made again.
//
// # Objects
//
// A tree is a Merkle tree of objects, each named by its SHA-256. There is one
// encoding, so that equal trees have equal names. Integers are unsigned varints
// in their shortest form; a string is its length and its bytes; a hash is 32 raw
// bytes. A file's content is an object as it is.
//
// A directory is the line "segno tree 1\n" and its entries, strictly ascending by
// the bytes of their names. No name is empty, "." or "..", or has a / or a NUL:
//
//	'f' name mode size content-hash xattrs   a file
//	'd' name mode directory-hash xattrs      a directory
//	's' name target                          a symlink
//	'h' name mode size content-hash xattrs first   another name of the file whose
//	                                         first name, in byte order, is the path first
//	'p' name reason                          protected
//
// xattrs is 0, or 1 and the hash of an object: the line "segno xattrs 1\n" and
// pairs of strings, name and value, strictly ascending by name, at least one.
//
// Modification times stand apart, in objects of the same shape, so that a tree's
// name does not depend on them: the line "segno times 1\n" and entries, strictly
// ascending by name, at least one:
//
//	'f' name time            a file; 8 bytes, big endian, nanoseconds since 1970
//	'd' name times-hash      a directory with a file somewhere below
//
// A tree without files has no times object, and its Times is the zero hash.
//
// # Merging
//
// [Merge] merges two versions of a file that were made from a third, line by line. It
// is for undo: a formatter may have changed the file that the undone turn changed.
//
// # The index
//
// What a snapshot saw of each file (size, times, inode, mode) is kept in one file,
// so that the next one only walks. It is a cache: torn, foreign or stale, it costs
// a full scan and nothing else. See index.go.
//
// # Restoring
//
// [Dir.Apply] overwrites or deletes a path only if the store holds what stands
// there. Each file is written beside its place under a temporary name, with its
// mode, attributes and time, synced, and renamed over it; a process killed at any
// moment leaves each path old or new, and the same Apply again goes on from there.
package workspace
