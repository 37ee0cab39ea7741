package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/history/printable"
)

// PrintDiff prints changes in the form that the flags choose. A patch contains the changes of databases as comments.
func (a *App) PrintDiff(databases []history.Change, changes []segno.Change, flags DiffFlags, patches func(withBinary bool) Patcher) error {
	all := history.Signed(changes)
	if len(databases) > 0 {
		all = append(databases, all...)
	}
	return a.PrintLong(all, func(p *Printer) {
		if !flags.Names {
			for _, c := range databases {
				p.diffLine("# " + c.Sign + " " + c.Name() + "\n")
			}
		}
		switch {
		case flags.Names:
			p.Changes(all)
		case flags.Stat:
			p.fail(writeStat(p, changes, patches(false)))
		default:
			p.fail(writeDiff(p, changes, patches(flags.Binary)))
		}
	})
}

// Patcher makes the patch of a change.
type Patcher func(segno.Change) (*patch.Patch, error)

// IsUnder reports whether a path is equal to or below one of paths.
func IsUnder(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return p == "." || p == path || strings.HasPrefix(path, p+"/") })
}

// Diff prints the patches of changes.
func (p *Printer) Diff(changes []segno.Change, patchOf Patcher) {
	p.fail(writeDiff(p, changes, patchOf))
}

// writeDiff writes one patch after the other, so it never has a large diff in memory.
func writeDiff(p *Printer, changes []segno.Change, patchOf Patcher) error {
	for _, c := range changes {
		change, err := patchOf(c)
		if err != nil {
			return err
		}
		text := change.String()
		if Terminal(p.w) {
			text = printable.Patch(text)
		}
		for line := range strings.Lines(text) {
			p.diffLine(line)
		}
	}
	return nil
}

// maxBar is the length of the longest bar of diff --stat.
const maxBar = 40

// writeStat writes for each file how many of its lines changed, as git does.
func writeStat(p *Printer, changes []segno.Change, patchOf Patcher) error {
	var names []string
	var patches []*patch.Patch
	var width, most, added, deleted int
	for _, c := range changes {
		if c.From.Type == segno.EntityDir || c.From.Type == segno.EntityNone && c.To.Type == segno.EntityDir {
			continue
		}
		lines, err := patchOf(c)
		if err != nil {
			return err
		}
		lines.Text = "" // only the counts are needed
		names, patches = append(names, QuotePath(c.Path)), append(patches, lines)
		width, most = max(width, Visible(QuotePath(c.Path))), max(most, lines.Added+lines.Deleted)
		added, deleted = added+lines.Added, deleted+lines.Deleted
	}
	bar := func(sign string, n int) string {
		if most > maxBar {
			n = (n*maxBar + most - 1) / most
		}
		return strings.Repeat(sign, n)
	}
	for i, x := range patches {
		what := p.Added(bar("+", x.Added)) + p.Gone(bar("-", x.Deleted))
		if x.Binary {
			what = "binary"
		}
		p.Linef(" %s | %*d %s", Pad(names[i], width), len(fmt.Sprint(most)), x.Added+x.Deleted, what)
	}
	if len(patches) > 0 {
		p.Linef(" %s changed, %s(+), %s(-)", Files(len(patches)), Plural(added, "insertion"), Plural(deleted, "deletion"))
	}
	return nil
}

// diffLine writes a line of a unified diff, which may be indented by four columns.
func (p *Printer) diffLine(line string) {
	switch text := strings.TrimLeft(line, " "); {
	case len(line)-len(text) > 4:
	case strings.HasPrefix(text, "+"):
		line = p.Added(strings.TrimSuffix(line, "\n")) + "\n"
	case strings.HasPrefix(text, "-"):
		line = p.Gone(strings.TrimSuffix(line, "\n")) + "\n"
	}
	p.write(line)
}

// DiffFlags are the flags of diff.
type DiffFlags struct {
	Names, Stat, Binary, Conflicts bool
	Identity                       string
	Bases                          []string
}
