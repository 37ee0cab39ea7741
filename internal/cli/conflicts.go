package cli

import (
	"context"
	"strings"

	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
)

// diffLine writes a line of a unified diff, which may be indented by four columns.
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
	items, err := moves.UnwrittenPaths(ctx, d.content, plan.Conflicts, plan.Forced)
	if err != nil {
		return err
	}
	return a.printLong(items, func(p *printer) {
		switch {
		case moves.Paths(plan) != "":
			a.notef("the last move was limited to paths: 'segno %s --dry-run%s' shows the paths it left", plan.Verb, " "+clean(plan.Args))
		case len(items) == 0:
			a.notef("the last move left no conflicts")
		}
		text := a.moveText(p)
		text.Conflicts(items, 0)
		p.lines(text.Lines())
	})
}
