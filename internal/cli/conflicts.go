package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// unwrittenPath is a path in a result that a move leaves as it is.
type unwrittenPath struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // base64, if the path is not valid UTF-8
	Why       string `json:"why"`
	Diff      string `json:"diff,omitempty"` // of a conflict: from the present content to what --force would write
}

// unwrittenPaths makes results of conflicts. forced has what force would do about them, which
// is shown as a difference.
func unwrittenPaths(ctx context.Context, d *openWorkspace, conflicts []segno.Conflict, forced []segno.Change) ([]unwrittenPath, error) {
	changes := map[string]segno.Change{}
	for _, c := range forced {
		changes[c.Path] = c
	}
	out := make([]unwrittenPath, len(conflicts))
	for i, c := range conflicts {
		out[i] = unwrittenPath{Path: c.Path, PathBytes: segno.PathBytes(c.Path), Why: c.Why}
		change, ok := changes[c.Path]
		if !ok || i >= maxShown {
			continue
		}
		if change.From.Size > maxShownBytes || change.To.Size > maxShownBytes {
			out[i].Diff = "# too large to show\n"
			continue
		}
		p, err := patchOf(ctx, d, change, false)
		if err != nil {
			return nil, err
		}
		out[i].Diff = p.String()
	}
	return out, nil
}

// Of so many conflicts, and of files up to this size, the difference is shown.
const (
	maxShown      = 200
	maxShownBytes = 1 << 20
)

// planLines is how much of one conflict's difference a plan shows.
const planLines = 40

// writeConflicts shows paths that stay, each with its difference, of which at most
// most lines are shown unless that is 0.
func (a *app) writeConflicts(w io.Writer, conflicts []unwrittenPath, most int) error {
	p := a.paint(w)
	for _, c := range conflicts {
		if _, err := fmt.Fprintf(w, "  %s %s  %s\n", p.warn("!"), quotePath(c.Path), p.dim(c.Why)); err != nil {
			return err
		}
		lines := slices.DeleteFunc(slices.Collect(strings.Lines(c.Diff)), func(l string) bool { return strings.HasPrefix(l, "diff --git ") || strings.HasPrefix(l, "index ") })
		more := 0
		if most > 0 && len(lines) > most {
			lines, more = lines[:most], len(lines)-most
		}
		for i := range lines {
			lines[i] = "    " + cleanLines(lines[i])
		}
		if err := paintDiff(w, p, lines); err != nil {
			return err
		}
		if more > 0 {
			if _, err := fmt.Fprintln(w, p.dim("    … and "+plural(more, "more line"))); err != nil {
				return err
			}
		}
	}
	return nil
}

// paintDiff writes the lines of a unified difference.
func paintDiff(w io.Writer, p paint, lines []string) error {
	for _, line := range lines {
		switch text := strings.TrimLeft(line, " "); {
		case len(line)-len(text) > 4:
		case strings.HasPrefix(text, "+"):
			line = p.added(strings.TrimSuffix(line, "\n")) + "\n"
		case strings.HasPrefix(text, "-"):
			line = p.gone(strings.TrimSuffix(line, "\n")) + "\n"
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// runConflicts shows the conflicts that the newest move did not overwrite.
func (a *app) runConflicts(ctx context.Context) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
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
	return a.printLong(items, func(w io.Writer) error {
		switch {
		case pathsOf(plan) != "":
			a.notef("the last move was limited to paths: 'segno %s --dry-run%s' shows the paths it left", plan.Verb, " "+clean(plan.Args))
		case len(items) == 0:
			a.notef("the last move left no conflicts")
		}
		return a.writeConflicts(w, items, 0)
	})
}
