package timeline

import (
	"regexp"
	"sync"

	"github.com/dalsegno/segno"
)

// What crossed may put into a command for people to paste: a branch can be named
// anything.
var (
	gitCommit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })
	gitBranch = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`) })
)

// headChange returns the command that moves git's HEAD from where it is now to where it
// was then, or "" if it is there: a move writes files and never touches the
// repository. The command leaves the working tree alone, so that it can be run right
// after the move: the index becomes that of the commit then.
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
