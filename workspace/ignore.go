package workspace

import "github.com/dalsegno/segno/internal/gitignore"

// patterns are the lines of a .segnoignore, with the semantics of a .gitignore in
// the same place.
type patterns struct{ list *gitignore.List }

// What patterns say of a path.
const (
	matchNone    = gitignore.None
	matchIgnored = gitignore.Ignored
	matchKept    = gitignore.Kept
)

// parsePatterns reads a .segnoignore. Every text is one; a line that can match
// nothing is left out.
func parsePatterns(text []byte) patterns { return patterns{gitignore.Parse(text)} }

// match returns what the last line that matches dir/name wants. The caller does not
// enter directories that are ignored, so that only this path counts.
func (ps patterns) match(dir, name string, isDir bool) gitignore.Verdict {
	if ps.list.Len() == 0 {
		return matchNone
	}
	verdict, _ := ps.list.Match(join(dir, name), isDir)
	return verdict
}
