package moves

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
)

// maxPaths is the number of lines with changes that a move prints if Verbose is not set.
const maxPaths = 20

// summary lists changes in at most about most lines: it sums up many changes by directory, unless Verbose is set. It returns
// the number of lines.
func (t *Text) summary(changes []history.Change, most int) int {
	if t.Verbose || len(changes) <= most {
		t.Changes(changes)
		return len(changes)
	}
	groups := byDirectory(changes, most)
	shown := groups[:min(len(groups), most)]
	for _, g := range shown {
		if len(g.changes) == 1 {
			t.Changes(g.changes)
		} else {
			t.linef("  %s  %s%s", segno.QuotePath(g.dir+"/"), t.paint(Files, g.counts()), g.merged())
		}
	}
	rest := ""
	if n := len(groups) - len(shown); n > 0 {
		rest = fmt.Sprintf(", also in %d more directories", n)
	}
	t.linef("%s", t.paint(Dim, fmt.Sprintf("  %d paths in all%s; --verbose lists them", len(changes), rest)))
	return len(shown)
}

// Changes lists changes, one on each line.
func (t *Text) Changes(changes []history.Change) {
	for _, x := range changes {
		line := fmt.Sprintf("  %s %s", x.Sign, x.Name())
		if x.LinesAdded+x.LinesDeleted > 0 {
			line += fmt.Sprintf("  +%d -%d", x.LinesAdded, x.LinesDeleted)
		}
		if x.Merged {
			line += "  merged"
		}
		if x.WhileCommand {
			line += "  while a command ran"
		}
		switch x.Sign {
		case "+":
			line = t.paint(Added, line)
		case "-":
			line = t.paint(Gone, line)
		}
		t.linef("%s", line)
	}
}

// group has the changes below a directory.
type group struct {
	dir     string
	changes []history.Change
}

// byDirectory groups changes by directory, at the greatest depth with at most that many groups. If
// there are more directories at the top, the directories with the most changes come first.
func byDirectory(changes []history.Change, most int) (groups []group) {
	for depth := 64; depth > 0; depth-- {
		groups = nil
		at := map[string]int{}
		for _, c := range changes {
			dir := ancestorDir(c, depth)
			i, ok := at[dir]
			if !ok {
				i = len(groups)
				at[dir], groups = i, append(groups, group{dir: dir})
			}
			if groups[i].changes = append(groups[i].changes, c); depth > 1 && len(groups) > most {
				break
			}
		}
		if len(groups) <= most {
			return groups
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return len(b.changes) - len(a.changes) })
	return groups
}

// ancestorDir returns the first depth parts of the directory of a change.
func ancestorDir(c history.Change, depth int) string {
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
	return printable.Counts(n)
}

func (g group) merged() string {
	if n := len(Merged(g.changes)); n > 0 {
		return fmt.Sprintf("  %d merged", n)
	}
	return ""
}

// byName separates the changes that a tool named from those that were made while a command ran. A directory is where the
// files in it are.
func byName(changes []history.Change) (named, unnamed []history.Change) {
	isDir := func(c history.Change) bool { return c.Type == string(segno.EntityDir) }
	hasNamed, hasUnnamed := map[string]bool{}, map[string]bool{} // the directories above such files
	for _, c := range changes {
		has := hasNamed
		if c.WhileCommand {
			has = hasUnnamed
		}
		for dir := path.Dir(c.Path); !isDir(c) && dir != "." && !has[dir]; dir = path.Dir(dir) {
			has[dir] = true
		}
	}
	for _, c := range changes {
		if c.WhileCommand || isDir(c) && hasUnnamed[c.Path] && !hasNamed[c.Path] {
			c.WhileCommand = false // the heading already contains it
			unnamed = append(unnamed, c)
		} else {
			named = append(named, c)
		}
	}
	return named, unnamed
}

// Merged returns the changes that keep lines of another author.
func Merged(changes []history.Change) []history.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c history.Change) bool { return !c.Merged })
}
