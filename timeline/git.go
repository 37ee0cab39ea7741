package timeline

import (
	"regexp"
	"sync"

	"github.com/dalsegno/segno"
)

// The commits and branches that headChange may put into a command for users to paste. A branch
// can have any name.
var (
	gitCommit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })
	gitBranch = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`) })
)

// headChange returns the command that moves git's HEAD to its position at an earlier snapshot,
// or "" if HEAD has not moved. segno writes files and never changes the repository. The
// command keeps the working tree, so that the user can run it after the move. It resets the
// index to the earlier commit.
func headChange(now, then *segno.Git) string {
	if now == nil || then == nil || now.Head == then.Head && now.Branch == then.Branch {
		return ""
	}
	named := gitBranch().MatchString(then.Branch)
	switch {
	case then.Head == "" && then.Branch == now.Branch && named && now.Head != "":
		return "git update-ref -d HEAD" // before the first commit
	case !gitCommit().MatchString(then.Head):
		return ""
	case then.Branch == now.Branch:
		return "git reset " + then.Head
	case named:
		return "git symbolic-ref HEAD refs/heads/" + then.Branch + " && git reset " + then.Head
	}
	return "git update-ref --no-deref HEAD " + then.Head + " && git reset"
}

// setGitWarning notes in a plan that moves the thread to landing where git's HEAD was then.
func (p *Plan) setGitWarning(now segno.Snapshot, landing *segno.Checkpoint) {
	if landing.Workspace != nil {
		p.Git = headChange(now.Git, landing.Workspace.Git)
	}
}
