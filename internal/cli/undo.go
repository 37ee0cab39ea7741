package cli

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

func (a *app) undo() *cobra.Command {
	return a.step(segno.VerbUndo, "take back the newest turns, files and conversation", `Takes back the N newest turns of the line the thread stands on (default 1), newest
first: what tools, shell commands and anything else did to the files meanwhile, and
the conversation. A file that was changed since the turn is merged by lines. If the
same lines were changed, or the file is binary, it is a conflict: it is listed with
the difference and left alone, and the exit code is 4. --force writes over conflicts;
right after an undo that left some, it writes over those and undoes no other turn.
Nothing is lost: 'segno redo' goes forward again, and 'segno op undo' takes the undo
itself back.`)
}

func (a *app) redo() *cobra.Command {
	return a.step(segno.VerbRedo, "do undone turns again, oldest first", `Goes forward again over the N oldest turns that were undone (default 1). Files that
were changed since are merged or conflicts, as for 'segno undo'.`)
}

func (a *app) step(verb segno.Verb, summary, long string) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: string(verb) + " [N]", Short: summary, Long: long,
		Example: "  segno " + string(verb) + "\n  segno " + string(verb) + " 3 -y",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n := 1
			if len(args) == 1 {
				var err error
				if n, err = strconv.Atoi(args[0]); err != nil || n < 1 {
					return usage(errors.New(string(verb) + " takes a number of turns, 1 or more"))
				}
			}
			return a.runStep(c.Context(), segno.Ask{Verb: verb, Turns: n, Force: force})
		},
	}
	a.moves(c)
	c.Flags().BoolVar(&force, "force", false, "write over conflicts, and under an open turn; what was there is saved first")
	return c
}

func (a *app) runStep(ctx context.Context, ask segno.Ask) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	return a.move(ctx, d, ask)
}
