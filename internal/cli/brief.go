package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// maxPaths is how many paths of a kind a move lists without --verbose.
const maxPaths = 20

// writeSummary lists changes, or sums up many by directory.
func (a *app) writeSummary(w io.Writer, changes []change) error {
	p := a.paint(w)
	if a.verbose || len(changes) <= maxPaths {
		return writeChanges(w, p, changes, nil)
	}
	groups := byDirectory(changes, maxPaths)
	shown := groups[:min(len(groups), maxPaths)]
	for _, g := range shown {
		if len(g.changes) == 1 {
			if err := writeChanges(w, p, g.changes, nil); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(w, "  %s  %s%s\n", quotePath(g.dir+"/"), p.files(g.counts()), g.merged()); err != nil {
			return err
		}
	}
	rest := ""
	if n := len(groups) - len(shown); n > 0 {
		rest = fmt.Sprintf(", also in %d more directories", n)
	}
	_, err := fmt.Fprintln(w, p.dim(fmt.Sprintf("  %d paths in all%s; --verbose lists them", len(changes), rest)))
	return err
}

// group is the changes below a directory.
type group struct {
	dir     string
	changes []change
}

// byDirectory groups changes by directory, as deep as it takes at most so many groups.
// If even the topmost directories are more, the fullest come first.
func byDirectory(changes []change, most int) (groups []group) {
	for depth := 64; depth > 0; depth-- {
		groups = nil
		at := map[string]int{}
		for _, c := range changes {
			dir := ancestorDir(c, depth)
			if i, ok := at[dir]; ok {
				groups[i].changes = append(groups[i].changes, c)
				continue
			}
			if depth > 1 && len(groups) == most {
				groups = append(groups, group{})
				break
			}
			at[dir] = len(groups)
			groups = append(groups, group{dir, []change{c}})
		}
		if len(groups) <= most {
			return groups
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return len(b.changes) - len(a.changes) })
	return groups
}

// ancestorDir is the directory of a change, cut to its first depth parts.
func ancestorDir(c change, depth int) string {
	parts := strings.Split(c.Path, "/")
	if c.Type != string(segno.EntityDir) {
		parts = parts[:len(parts)-1]
	}
	if len(parts) == 0 {
		return "."
	}
	return strings.Join(parts[:min(len(parts), depth)], "/")
}

func (g group) counts() string {
	var n segno.Counts
	for _, c := range g.changes {
		switch {
		case c.Type == string(segno.EntityDir):
		case c.Sign == "+":
			n.Added++
		case c.Sign == "-":
			n.Deleted++
		default:
			n.Modified++
		}
	}
	if n.IsZero() {
		return "directories only"
	}
	return counts(n)
}

func (g group) merged() string {
	n := 0
	for _, c := range g.changes {
		if c.Merged {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("  %d merged", n)
}
