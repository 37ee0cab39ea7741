package cli

import (
	"context"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// unwrittenPath is a path in a result that a move leaves as it is.
type unwrittenPath struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // base64, if the path is not valid UTF-8
	Why       string `json:"why"`
	Diff      string `json:"diff,omitempty"` // of a conflict: from the present content to the content that --force would write
}

// unwrittenPaths makes results of conflicts. forced has the changes that --force would make; each
// is shown as a difference.
func unwrittenPaths(ctx context.Context, d *openWorkspace, conflicts []segno.Conflict, forced []segno.Change) ([]unwrittenPath, error) {
	changes := map[string]segno.Change{}
	for _, c := range forced {
		changes[c.Path] = c
	}
	out := make([]unwrittenPath, len(conflicts))
	for i, c := range conflicts {
		out[i] = unwrittenPath{Path: c.Path, PathBytes: segno.PathBytes(c.Path), Why: c.Why}
		name, isDatabase := segno.DatabaseName(c.Path)
		if isDatabase {
			out[i].Path, out[i].PathBytes = databaseLabel(name), segno.PathBytes(name)
		}
		switch change, ok := changes[c.Path]; {
		case !ok, i >= maxShown, isDatabase:
		case max(change.From.Size, change.To.Size) > maxShownBytes:
			out[i].Diff = "# too large to show\n"
		default:
			p, err := patchOf(ctx, d.content, change, false)
			if err != nil {
				return nil, err
			}
			out[i].Diff = p.String()
		}
	}
	return out, nil
}

// databaseLabel is the name of a database in a list of paths.
func databaseLabel(name string) string { return "database " + name }

// Only the first conflicts, and files up to this size, are shown with their difference.
const (
	maxShown      = 200
	maxShownBytes = 1 << 20
)

// planLines is the number of lines of a conflict's difference in a plan.
const planLines = 40

// writeConflicts shows the paths that a move leaves as they are, each with at most most lines of
// its difference. 0 is no limit.
func (p *printer) writeConflicts(conflicts []unwrittenPath, most int) {
	for _, c := range conflicts {
		p.linef("  %s %s  %s", p.warn("!"), quotePath(c.Path), p.dim(c.Why))
		n := 0
		for line := range strings.Lines(c.Diff) {
			if strings.HasPrefix(line, "diff --git ") || strings.HasPrefix(line, "index ") {
				continue
			}
			if n++; most == 0 || n <= most {
				p.diffLine("    " + cleanLines(line))
			}
		}
		if most > 0 && n > most {
			p.linef("%s", p.dim("    … and "+plural(n-most, "more line")))
		}
	}
}

// diffLine writes a line of a unified difference, which may be indented by four columns.
func (p *printer) diffLine(line string) {
	switch text := strings.TrimLeft(line, " "); {
	case len(line)-len(text) > 4:
	case strings.HasPrefix(text, "+"):
		line = p.added(strings.TrimSuffix(line, "\n")) + "\n"
	case strings.HasPrefix(text, "-"):
		line = p.gone(strings.TrimSuffix(line, "\n")) + "\n"
	}
	p.write(line)
}

// runConflicts shows the conflicts that the newest move did not overwrite.
func (a *app) runConflicts(ctx context.Context, d *openWorkspace, _ []string) error {
	thread, err := a.threadID(ctx, d)
	if err != nil {
		return err
	}
	plan, err := d.timeline.Remaining(ctx, thread)
	if err != nil {
		return err
	}
	if plan == nil {
		plan = new(timeline.Plan)
	}
	items, err := unwrittenPaths(ctx, d, plan.Conflicts, plan.Forced)
	if err != nil {
		return err
	}
	return a.printLong(items, func(p *printer) {
		switch {
		case pathsOf(plan) != "":
			a.notef("the last move was limited to paths: 'segno %s --dry-run%s' shows the paths it left", plan.Verb, " "+clean(plan.Args))
		case len(items) == 0:
			a.notef("the last move left no conflicts")
		}
		p.writeConflicts(items, 0)
	})
}
