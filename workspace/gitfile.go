package workspace

import (
	"path"

	"github.com/dalsegno/segno"
)

// A .git file is in a submodule or a linked worktree and names its repository. A snapshot
// saves it, so that a restore can write it if it was removed: without it git would treat the
// files as part of the repository around them. A restore never changes or removes a .git file
// that exists, and a fork gets another one; see makeGitIndependent.

// isGitFile reports whether an entry is the .git file of a submodule or worktree.
func isGitFile(name string, st *stat) bool { return name == gitName && st.is(typeFile) }

const gitName = ".git"

// isGitPath reports whether the last name of a path is .git.
func isGitPath(p string) bool { return path.Base(p) == gitName }

// changesGitFile reports whether a step writes or removes a .git file.
func changesGitFile(s segno.Change) bool {
	return isGitPath(s.Path) && (s.From.Type == segno.EntityFile || s.To.Type == segno.EntityFile)
}
