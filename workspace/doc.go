// Package workspace saves, compares, restores and forks the directory tree in which an agent
// works. [Open] returns a [Dir], which is a [segno.Workspace].
//
// # What is saved
//
// Everything under the root, inside and outside git, tracked or not: contents, permission bits
// with setuid, setgid and sticky, symlinks as links (they are never followed), hard links among
// the tree's own files, user extended attributes, empty directories, modification times of
// files, and names of any bytes. The owner is recorded only for files and directories with
// setuid or setgid. Other extended attributes and the root directory's own mode are not saved.
// A file that consists of one hole is not read, and each 64 KiB block of zeros is written as a
// hole.
//
// A snapshot has a budget: 16 GiB of contents, 2,000 levels of directories and 32 KiB of path.
// The largest files and the deepest directories beyond it are protected. The snapshot is then
// partial: its Unread lists the first 100 of these paths, in addition to those that could not
// be read.
//
// Some paths are protected: a snapshot records them with the reason but does not store them,
// and a restore never touches them. They are .git (but a .git file, of a submodule or a linked
// worktree, is saved, and restored if it is missing), a bare repository with linked worktrees or
// with a .git file beside it that names it, directories that a tool can make again
// (recognised by a name and a marker beside or inside the directory; see rules), directories
// with a CACHEDIR.TAG, files over 64 MiB, files over 8 MiB that git ignores, FIFOs, sockets and
// devices, paths that could not be read, and paths that the root's .segnoignore matches. That
// file has exactly the syntax and meaning of a .gitignore in the same place; see package
// gitignore. A line that begins with ! also ends the protection of a directory that a tool can
// make again.
//
// An agent can write these rules, too. [Dir.Cover] names trees. The paths that they saved stay
// saved in spite of a rule, and the snapshot lists them as held.
//
// A snapshot decides without git whether git ignores a large file. It starts no program,
// because the repository may be hostile. See protectIgnored for the files that it reads.
//
// # Hostile trees
//
// The content of a tree, including its .git, may be hostile. Every file is opened by one
// descent from the open root: each directory is opened from the one above it, and never through
// a symlink. Files of .git are opened without waiting, only if they are regular, and read only
// up to a limit. No git is started. A .git file or symlink is followed only to a repository
// that has the same owner and names the directory as its worktree; the .git of another user is
// not read. [Register] asks before the directory of another user becomes a workspace: see
// [CheckOwner].
//
// # Objects
//
// A tree is a Merkle tree of objects, each named by its SHA-256. Each tree has exactly one
// encoding, so that equal trees have equal names. Integers are unsigned varints in their
// shortest form; a string is its length and its bytes; a hash is 32 raw bytes. The object of a
// file's content has exactly the content's bytes.
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
// If the mode of an entry has setuid or setgid, its owner follows: the numbers of the user and
// of the group. The first line of the directory is then "segno tree 2\n". Any other directory
// is version 1. A version 1 with setuid or setgid was written before owners were recorded.
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
// One file stores the stat of each file at the last snapshot (size, times, inode, mode), so
// that the next snapshot reads only changed files. It is a cache: if it is torn, stale or from
// another tree, the next snapshot reads everything. See index.go.
//
// A snapshot that read few files since the index was written does not write it again, because that takes longer than to
// read the files once more in a later process. It only changes the file's time, by which other processes notice it.
//
// The index does not cover a file whose content can change without a change of its stat: one
// that a process holds open for writing or has mapped and, if the file system cannot report
// that, one whose ctime is younger than the kernel's write-back window. The next snapshot reads
// these files again. A file that may be changing during a snapshot is read until two readings
// agree, and is unread if none do. See clock.go.
//
// # Restoring
//
// [Dir.Apply] overwrites or deletes a path only if the store has its present content. It reads
// that content and does not rely on the index. It writes each file under a temporary name in
// the same directory, with its mode, attributes and time, syncs it, and renames it. If the
// process is killed at any moment, each path is either old or new, and the same Apply completes
// the work.
//
// Owners are not restored. Setuid and setgid are restored if the path has the owner that the
// snapshot recorded. Otherwise they are left out and the path is a conflict. That includes
// every snapshot from before owners were recorded. A fork has no setuid or setgid.
//
// # Platforms
//
// Linux and macOS share all code but platform_linux.go and platform_portable.go. A file system
// may ignore case or normalise Unicode. On macOS, and on Linux for each file system that is not
// known to compare names byte by byte, a restore compares the spelling of a name with the directory listing, and reports a conflict for the second of two names that the file system
// treats as one.
package workspace
