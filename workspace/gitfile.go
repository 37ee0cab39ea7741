package workspace

import (
	"path"

	"github.com/dalsegno/segno"
)

// A .git that is a file leads from a submodule or a linked worktree to its
// repository. A snapshot saves it, so that a restore can bring it back when it is
// gone: without it git would take the files for those of the repository around
// them. A restore never changes or removes one that is there, and a fork gets one of
// its own; see ownGit.

// isGitFile reports whether an entry is the .git file of a submodule or worktree.
func isGitFile(name string, st *stat) bool { return name == gitName && st.is(typeFile) }

const gitName = ".git"

// isGitPath reports whether a path is a .git, of whatever kind.
func isGitPath(p string) bool { return path.Base(p) == gitName }

// sameGitFile reports whether two states of a .git differ only because a snapshot of
// an earlier version did not save it.
func sameGitFile(p string, from, to segno.Entity) bool {
	old := func(e segno.Entity) bool { return e.Type == segno.EntityProtected && e.Why == whyGit }
	return isGitPath(p) && (old(from) && to.Type == segno.EntityFile || from.Type == segno.EntityFile && old(to))
}

// changesGitFile reports whether a step writes or removes a .git file.
func changesGitFile(s segno.Change) bool {
	return isGitPath(s.Path) && (s.From.Type == segno.EntityFile || s.To.Type == segno.EntityFile)
}
