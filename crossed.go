package segno

import (
	"fmt"
	"regexp"
	"sync"
)

// What crossed may put into a command for people to paste: a branch can be named
// anything.
var (
	gitCommit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })
	gitBranch = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`) })
)

// crossed says what a person may want to run when the commit checked out moved
// between two snapshots: a restore writes files and never touches the repository.
func crossed(now, then *Git) string {
	if now == nil || then == nil || now.Head == then.Head || !gitCommit().MatchString(then.Head) {
		return ""
	}
	if then.Branch != now.Branch && gitBranch().MatchString(then.Branch) {
		return fmt.Sprintf("git switch %s && git reset --soft %s", then.Branch, then.Head)
	}
	return "git reset --soft " + then.Head
}
