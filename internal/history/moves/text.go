package moves

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
)

// Role is the meaning of a part of a text. A terminal shows each role in its colour.
type Role int

const (
	Bold Role = iota
	Dim
	Warn
	Files
	Added
	Gone
)

// Text collects the lines that describe a move.
type Text struct {
	// Paint colours a part of a line. nil leaves the text plain.
	Paint func(r Role, s string) string
	// Verbose lists all paths.
	Verbose bool

	lines []string
}

// Lines returns the lines so far, without line endings.
func (t *Text) Lines() []string { return t.lines }

func (t *Text) linef(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *Text) paint(r Role, s string) string {
	if t.Paint == nil {
		return s
	}
	return t.Paint(r, s)
}

// Plan writes the changes that a move would make in the directory root.
func (t *Text) Plan(root string, plan *timeline.Plan, res Result) {
	t.linef("%s %s%s in %s", t.paint(Bold, string(plan.Verb)), Turns(plan), Whose(plan), segno.QuotePath(root))
	t.turnsOf(res.Of)
	if plan.Finishes != "" {
		t.linef("  this overwrites the conflicts of the last %s", plan.Verb)
	}
	if timeline.OnlyDatabases(plan.Steps) {
		t.linef("%s", t.paint(Dim, "  no files to write"))
	}
	t.changed(byName(res.Changes))
	t.Unwritten(res, planLines)
	t.stays(res.Stays)
	if plan.Point != nil {
		t.linef("%s", t.paint(Dim, "  the conversation stays: no session can end inside a turn"))
		t.inexact(plan)
	}
	if plan.Session != nil && plan.Session.Leaf != "" {
		t.linef("%s", t.paint(Dim, "  the conversation moves too"))
	}
	if plan.Only {
		t.linef("%s", t.paint(Dim, "  only files change; the newer turns and the conversation stay"))
	}
}

// Inexact describes the files that may have been different at a point inside a turn, in no line if there are none.
func Inexact(p *timeline.Point) []string {
	if p.IsExact() {
		return nil
	}
	const most = 3
	named := make([]string, 0, most)
	for _, path := range p.Unknown[:min(len(p.Unknown), most)] {
		named = append(named, segno.QuotePath(path))
	}
	if more := len(p.Unknown) - most; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return []string{p.Name() + " is not exact: what commands changed is known at the end of a turn",
		"these may have been different: " + strings.Join(named, ", ")}
}

// inexact lists the files that may have been different at the point of a plan.
func (t *Text) inexact(plan *timeline.Plan) {
	for _, line := range Inexact(plan.Point) {
		t.linef("%s", t.paint(Warn, "  "+line))
	}
}

// changed lists the changes that tools named, and apart from them those that were made while a command ran, because they
// may be the user's.
func (t *Text) changed(named, unnamed []history.Change) {
	if len(unnamed) == 0 {
		t.summary(named, maxPaths)
		return
	}
	lines := t.summary(named, maxPaths/2)
	t.linef("%s", t.paint(Dim, "  changed while a command ran, by no tool that names the file:"))
	t.summary(unnamed, maxPaths-lines)
}

// Moved writes the result of a move: the present checkpoint, and the paths that need the user's attention.
func (t *Text) Moved(m *timeline.MoveResult, res Result) {
	plan := m.Plan
	t.linef("%s%s: now at %s, %s", strings.TrimSpace(string(plan.Verb)+" "+Turns(plan)), Whose(plan), placeOf(m.Head), WrittenCounts(plan))
	if m.Head.Workspace == nil && m.Head.Session != nil {
		t.linef("  the files of %s were not recorded, so they stay as they are", placeOf(m.Head))
	}
	if plan.Point != nil {
		t.inexact(plan)
	}
	named, unnamed := byName(res.Changes)
	t.changed(Merged(named), unnamed)
	t.Changes(writtenDatabases(res))
	if !IsLimited(plan) {
		for i := range res.Conflicts {
			res.Conflicts[i].Diff = "" // 'segno diff --conflicts' shows it
		}
	}
	t.Unwritten(res, 0)
	t.Saved(m)
}

// Saved says that a restore has saved what no checkpoint had, because a restore also overwrites changes of the user.
func (t *Text) Saved(m *timeline.MoveResult) {
	if m.Saved != "" && m.Plan.Verb == segno.VerbRestore && m.Files > 0 {
		t.linef("  what no checkpoint had was saved first, as %s; 'segno op undo' brings it back", printable.Short(m.Saved))
	}
}

// placeOf names the checkpoint that a thread is at now.
func placeOf(c *segno.Checkpoint) string {
	if c.Kind == segno.CheckpointBase {
		if c.Parent != "" {
			return "the beginning of the fork"
		}
		return "the beginning"
	}
	return printable.Label(c)
}

func writtenDatabases(res Result) (written []history.Change) {
	for _, c := range res.Changes {
		isConflict := func(u UnwrittenPath) bool { return u.Path == databaseLabel(c.Path) }
		if c.Type == string(segno.EntityDatabase) && !slices.ContainsFunc(res.Conflicts, isConflict) {
			written = append(written, c)
		}
	}
	return written
}

// WrittenCounts sums up the files that a move wrote.
func WrittenCounts(p *timeline.Plan) string {
	n := timeline.CountChanges(p.Steps)
	switch {
	case n.IsZero() && !timeline.OnlyDatabases(p.Steps):
		return "directories only"
	case n.IsZero():
		return "no files written"
	}
	return "files " + printable.Counts(n)
}

// Whose names the thread that a plan moves, and the prompt of its first turn. It returns "" unless several threads work
// in the directory.
func Whose(p *timeline.Plan) string {
	if !p.Several {
		return ""
	}
	text := " of thread " + printable.Short(p.Thread)
	if title := timeline.Title(p.Prompt); title != "" {
		text += fmt.Sprintf(" (%q)", printable.Inline(title))
	}
	return text
}

// planLines is the number of lines of a conflict's diff in a plan.
const planLines = 40

// Turns names the turns that a plan moves over, as "t3, t2", or the target of a restore.
func Turns(p *timeline.Plan) string {
	if len(p.Turns) == 0 {
		return p.Args
	}
	names := make([]string, len(p.Turns))
	for i, t := range p.Turns {
		names[i] = fmt.Sprintf("t%d", t)
	}
	text := strings.Join(names, ", ")
	if p.Only {
		text += " --only"
	}
	return text + Paths(p)
}

// Paths returns the part of an undo's arguments that limits it to paths.
func Paths(p *timeline.Plan) string {
	if _, paths, ok := strings.Cut(p.Args, " -- "); ok && p.Verb == segno.VerbUndo {
		return " -- " + paths
	}
	return ""
}

// IsLimited reports whether a plan was limited to paths or to chosen hunks. 'segno diff --conflicts' cannot show the conflicts
// of such a move later.
func IsLimited(p *timeline.Plan) bool {
	return Paths(p) != "" || strings.Contains(p.Args, " --patch") && p.Verb == segno.VerbUndo
}

// Unwritten lists the paths that a move leaves as they are, and the reasons. most limits the lines
// of each conflict; 0 means no limit.
func (t *Text) Unwritten(res Result, most int) {
	limit := func(all []UnwrittenPath) (shown []UnwrittenPath, more int) {
		if t.Verbose {
			return all, 0
		}
		shown = all[:min(len(all), maxPaths)]
		return shown, len(all) - len(shown)
	}
	conflicts, more := limit(res.Conflicts)
	t.Conflicts(conflicts, most)
	if more > 0 {
		t.linef("  %s and %d more; --verbose lists them", t.paint(Warn, "!"), more)
	}
	kept, more := limit(res.Kept)
	for _, k := range kept {
		t.linef("  %s %s  %s", t.paint(Dim, "="), segno.QuotePath(k.Path), t.paint(Dim, printable.Inline(k.Why)))
	}
	if more > 0 {
		t.linef("  %s and %d more; --verbose lists them", t.paint(Dim, "="), more)
	}
	if res.Git != "" {
		t.linef("  git HEAD was at another commit then and does not move; to move it: %s", res.Git)
	}
}

// Conflicts lists the paths that a move leaves as they are. most limits the lines of each diff; 0
// means no limit.
func (t *Text) Conflicts(conflicts []UnwrittenPath, most int) {
	for _, c := range conflicts {
		t.linef("  %s %s  %s", t.paint(Warn, "!"), segno.QuotePath(c.Path), t.paint(Dim, printable.Inline(c.Why)))
		t.Patch(c.Diff, most)
	}
}

// Patch lists the lines of a diff or of one hunk. most limits them; 0 means no limit.
func (t *Text) Patch(diff string, most int) {
	n := 0
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "diff --git ") || strings.HasPrefix(line, "index ") {
			continue
		}
		if n++; most == 0 || n <= most {
			t.linef("%s", t.diffLine("    "+printable.Lines(line)))
		}
	}
	if most > 0 && n > most {
		t.linef("%s", t.paint(Dim, "    … and "+printable.Plural(n-most, "more line")))
	}
}

// diffLine colours a line of a unified diff that is indented by four columns.
func (t *Text) diffLine(line string) string {
	line = strings.TrimSuffix(line, "\n")
	switch text := strings.TrimLeft(line, " "); {
	case len(line)-len(text) > 4:
	case strings.HasPrefix(text, "+"):
		return t.paint(Added, line)
	case strings.HasPrefix(text, "-"):
		return t.paint(Gone, line)
	}
	return line
}
