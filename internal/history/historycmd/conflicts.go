package historycmd

import (
	"context"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
)

// runConflicts shows the conflicts that the newest move did not overwrite.
func (a *app) runConflicts(ctx context.Context, d *cli.Workspace, _ []string) error {
	thread, err := a.ThreadID(ctx, d)
	if err != nil {
		return err
	}
	plan, err := d.Timeline.Remaining(ctx, thread)
	if err != nil {
		return err
	}
	if plan == nil {
		plan = new(timeline.Plan)
	}
	items, err := moves.UnwrittenPaths(ctx, d.Content, plan.Conflicts, plan.Forced)
	if err != nil {
		return err
	}
	return a.PrintLong(items, func(p *cli.Printer) {
		switch {
		case moves.IsLimited(plan):
			a.Notef("the last move was limited to paths or hunks: 'segno %s --dry-run%s' shows the paths it left", plan.Verb, " "+cli.Clean(plan.Args))
		case len(items) == 0:
			a.Notef("the last move left no conflicts")
		}
		text := a.MoveText(p)
		text.Conflicts(items, 0)
		p.Lines(text.Lines())
	})
}
