package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/dalsegno/segno"
)

// coverage is what a line of the log says of files that a checkpoint no longer saves,
// or saves although a rule protects them, as far as that differs from its parent.
func (h *history) coverage(c *segno.Checkpoint) string {
	if n := c.Files.Protected; n > 0 {
		return files(n) + " no longer recorded"
	}
	if c.Workspace == nil {
		return ""
	}
	var before []string
	if up := h.byID[c.Parent]; up != nil && up.Workspace != nil {
		before = up.Workspace.Held
	}
	held := slices.DeleteFunc(slices.Clone(c.Workspace.Held), func(p string) bool { return slices.Contains(before, p) })
	if len(held) == 0 {
		return ""
	}
	return "still recorded, though a rule protects it: " + abbreviated(held)
}

// writeCoverage warns in the status about files that segno no longer records, and about files
// that it records although a rule protects them.
func (a *app) writeCoverage(w io.Writer, s statusResult) {
	p := a.paint(w)
	if n := s.Head.Files.Protected; n > 0 {
		fmt.Fprintf(w, "%s    %s of its parent are protected here; undoing a later turn does not restore them\n", p.warn("warning"), files(n))
	}
	if n := s.Changed.Protected; n > 0 {
		fmt.Fprintf(w, "%s    %s now protected; changes of them are no longer recorded\n", p.warn("warning"), files(n))
	}
	if len(s.Held) > 0 {
		fmt.Fprintf(w, "%s    still recorded, though a rule that appeared in a turn protects it: %s; 'segno save' accepts the rule\n", p.warn("warning"), abbreviated(s.Held))
	}
}

func files(n int) string { return plural(n, "file") }

// plural is a number of things, "1 file" or "2 files".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// abbreviated names the first of several paths and counts the others.
func abbreviated(paths []string) string {
	text := clean(paths[0])
	switch n := len(paths) - 1; {
	case n+1 == segno.MaxHeld:
		text += " and many more"
	case n > 0:
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
