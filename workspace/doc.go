// Package workspace saves, compares, restores and forks the directory tree an
// agent works in. [Open] returns a [Dir], which is a [segno.Workspace].
//
// # What is saved
//
// Everything under the root, inside and outside git, tracked or not: contents,
// permission bits with setuid, setgid and sticky, symlinks as links (nothing is
// ever followed), hard links among the tree's own files, user extended
// attributes, empty directories, modification times of files, and names of any
// bytes. The owner is recorded only for files and directories with setuid or setgid.
// Other extended attributes and the root directory's own mode are not saved. A file that is
// nothing but a hole is not read, and each 64 KiB block of zeros is written as a hole.
//
// A snapshot has a budget: 16 GiB of contents, 2,000 levels of directories and 32 KiB of path.
// The largest files and the deepest directories beyond it are protected. The snapshot is then
// partial: its Unread lists the first 100 of these paths, beside those that could not be read.
//
// Some paths are protected: recorded with the reason, not stored, and never
// touched by a restore. They are .git (but a .git file, of a submodule or a linked
// worktree, is saved, and restored when it is gone), directories that can be made again (a name
// and a marker beside or inside it; see rules), directories with a CACHEDIR.TAG,
// files over 64 MiB, files over 8 MiB that git ignores, FIFOs, sockets and
// devices, paths that could not be read, and paths that the root's .segnoignore matches. That
// file has exactly the syntax and meaning of a .gitignore in the same place; see
// package gitignore. A line that begins with ! also ends the protection
// of a directory that can be made again.
//
// An agent can write these rules, too. [Dir.Cover] names trees; the paths that they saved stay
// saved in spite of a rule, and the snapshot lists them as held.
//
// A snapshot decides without git whether git ignores a large file: it starts no
// program, since the repository may be hostile. See protectIgnored for the files it reads.
//
// # Hostile trees
//
// The content of a tree, its .git included, may be hostile. Every file is
// reached by one descent from the open root: each directory is opened from the one
// above it, and none through a symlink. Files of .git are opened without waiting,
// only if they are regular, and read only up to a limit. No git is started. A .git file
// or symlink is followed only to a repository that has the same owner and names the
// directory as its worktree; the .git of another user is not read. [Register] asks
// before the directory of another user becomes a workspace: see [CheckOwner].
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
// If the mode of an entry has setuid or setgid, its owner follows: the numbers of
// the user and of the group, and the first line of the directory is "segno tree 2\n".
// Any other directory is version 1. A version 1 with setuid or setgid was written before owners
// were recorded.
//
// xattrs is 0, or 1 and the hash of an object: the line "segno xattrs 1\n" and
// pairs of strings, name and value, strictly ascending by name, at least one.
//
// Modification times are in separate objects of the same shape, so that a tree's
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
// [Dir.Merge] merges two versions of a file that were made from a third, line by line. It
// is for undo: a formatter may have changed the file that the undone turn changed.
//
// # The index
//
// One file has the stat of each file at the last snapshot (size, times, inode, mode),
// so that the next snapshot reads only changed files. It is a cache: if it is torn, foreign or
// stale, the next snapshot reads everything. See index.go.
//
// The index does not cover a file that can change without a trace in its stat:
// one that a process holds open for writing or has mapped and, if the file
// system cannot report that, one whose ctime is younger than the kernel's write-back
// window. The next snapshot reads these files again. A file that may be changing
// during a snapshot is read until two readings agree, and is unread if none do. See
// clock.go.
//
// # Restoring
//
// [Dir.Apply] overwrites or deletes a path only if the store has its present content. It
// reads that content and does not rely on the index. It writes each file beside
// its path under a temporary name, with its mode, attributes and time, syncs it, and
// renames it; a process killed at any moment leaves each path old or new, and
// the same Apply completes the work.
//
// Owners are not restored. Setuid and setgid are, if the path has the owner that the
// snapshot recorded; otherwise they are left out and the path is a conflict. That
// includes every snapshot from before owners were recorded. A fork has none of them.
//
// # Platforms
//
// Linux and macOS share all code but platform_linux.go and platform_portable.go. A file system
// may ignore case or normalise Unicode; a restore then compares the spelling of a name with
// the directory listing, and reports a conflict for the second of two names that the file system
// treats as one.
package workspace
