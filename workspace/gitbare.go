package workspace

import (
	"path"
	"strings"
)

// worktreeMarker returns the path of the file or directory, relative to handle, which shows that the directory called name is the
// repository of git worktrees, or "". Users who work in several worktrees often make a bare repository called .bare, and beside
// it a file .git that names it. Such a directory is a git directory like any .git: if a move removed the objects of one commit,
// later commits of the user, in any worktree, would be corrupt. A bare repository without worktrees is saved like other files.
func worktreeMarker(handle *dirHandle, name string) string {
	if !mayBeRepository(name) || !handle.exists(join(name, "HEAD")) || !handle.isDir(join(name, "objects")) || !handle.isDir(join(name, "refs")) {
		return ""
	}
	if worktrees := join(name, "worktrees"); handle.isDir(worktrees) {
		return worktrees
	}
	if st, err := handle.lstat(gitName); err != nil || !isGitFile(gitName, &st) {
		return ""
	}
	line, err := handle.readLine(gitName)
	if to, ok := strings.CutPrefix(line, "gitdir: "); err == nil && ok && path.Base(to) == name {
		return gitName
	}
	return ""
}

// mayBeRepository reports whether a repository of worktrees usually has such a name. A scan tests no other directory, because it
// would take a system call for each.
func mayBeRepository(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, gitName) || name == "bare"
}
