package historycmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/timeline"
)

// listRequested returns the moves of a workspace that wait for the end of a turn.
func listRequested(ctx context.Context, d *cli.Workspace) (all []history.Requested, err error) {
	waiting, err := d.Timeline.Spool.ListRequested(ctx, d.Rec.ID)
	for _, q := range waiting {
		all = append(all, history.NewRequested(q))
	}
	return all, err
}

func writeRequested(p *cli.Printer, requested []history.Requested) {
	for _, q := range requested {
		p.Linef("requested  %s: '%s' via %s, at the end of the turn; 'segno op cancel' drops it",
			cli.Short(q.Operation), cli.Inline(q.Move), cli.Inline(q.Actor))
	}
}

func (a *app) opCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel [OPERATION]", Short: "drop a move that an agent requested, before it is made",
		Long: `An agent that asks for an undo or a restore of its own thread during a turn, with the tools of
'segno mcp', requests it: the move is made when the turn ends. Until then, 'segno status'
and 'segno op log' list it, and this command drops it. The move is also dropped if the turn
is interrupted, or if the thread moves first.`,
		Example: "  segno op cancel",
		Args:    cobra.MaximumNArgs(1),
		RunE:    a.InWorkspace(a.runOpCancel),
	}
}

func (a *app) runOpCancel(ctx context.Context, d *cli.Workspace, args []string) error {
	all, err := d.Timeline.Spool.ListRequested(ctx, d.Rec.ID)
	if err != nil {
		return err
	}
	switch {
	case len(args) > 0:
	case len(all) == 1:
		args = []string{string(all[0].Operation)}
	case len(all) > 1:
		return segno.Errorf(segno.KindInvalid, "op cancel", "", "%d moves wait for the end of a turn", len(all)).
			WithHint("name one as 'segno op log' lists it")
	}
	query := idprefix.Query{What: "requested move", Name: append(args, "")[0], Hint: "run 'segno op log'"}
	q, err := idprefix.Find(query, idprefix.Values(all), func(q timeline.Requested) string { return string(q.Operation) })
	if err == nil {
		err = d.Timeline.CancelRequested(ctx, q)
	}
	if err != nil {
		return err
	}
	return a.Print(history.NewRequested(q), func(p *cli.Printer) {
		p.Linef("cancelled '%s', which %s requested", cli.Inline(q.String()), cli.Inline(q.Actor))
	})
}
