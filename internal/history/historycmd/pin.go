package historycmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
)

func (a *app) pin() *cobra.Command {
	return &cobra.Command{
		Use: "pin CHECKPOINT [NAME]", Short: "name a checkpoint, and keep it from gc",
		Long: `Gives a checkpoint a name that every verb accepts, and keeps it: gc does not drop it. A
checkpoint can have several names. The default name is "pinned".

'segno pin' names a checkpoint that is there; 'segno save' makes one, and 'segno sessions keep'
stores an agent's own session.`,
		Example: `  segno pin t37 green-build`,
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := strings.TrimSpace(append(args, moves.DefaultPin)[1])
			if !history.IsPinName(name) {
				return cli.Usage(errors.New("invalid pin name: names such as t1, latest, @x and x- are reserved"))
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				return a.runPin(ctx, d, args[0], name)
			})(c, args)
		},
	}
}

func (a *app) unpin() *cobra.Command {
	return &cobra.Command{
		Use: "unpin CHECKPOINT", Short: "remove all names of a checkpoint, or one of them", Args: cobra.ExactArgs(1),
		Long:    "Removes a name from its checkpoint. If CHECKPOINT is not such a name but a turn or an id,\nthe checkpoint loses all its names.",
		Example: "  segno unpin green-build\n  segno unpin t37", ValidArgsFunction: a.CompleteCheckpoints(1),
		RunE: a.InWorkspace(a.runUnpin),
	}
}

// runPin adds a name to a checkpoint.
func (a *app) runPin(ctx context.Context, d *cli.Workspace, which, name string) error {
	h, c, err := a.CheckpointNamed(ctx, d, which)
	if err != nil {
		return err
	}
	if err := d.Timeline.Pin(ctx, c.ID, cli.Label(c), name); err != nil {
		return err
	}
	return a.Print(map[string]any{"checkpoint": c.ID, "pin": name}, func(p *cli.Printer) {
		text := "pinned " + cli.Label(c) + " as " + cli.Inline(name)
		if others := slices.DeleteFunc(slices.Clone(h.Pins[c.ID]), func(n string) bool { return n == name }); len(others) > 0 {
			text += "; it is also called " + cli.Inline(strings.Join(others, ", "))
		}
		p.Linef("%s", text)
	})
}

// runUnpin removes the name that the user typed, or all names of a checkpoint that the user
// identified by a turn or an id.
func (a *app) runUnpin(ctx context.Context, d *cli.Workspace, args []string) error {
	h, c, err := a.CheckpointNamed(ctx, d, args[0])
	if err != nil {
		return err
	}
	names := h.Pins[c.ID]
	if slices.Contains(names, args[0]) {
		names = args[:1]
	}
	if len(names) == 0 {
		return segno.Errorf(segno.KindNotFound, "unpin", args[0], "the checkpoint has no pin").
			WithHint("run 'segno log' to see the names of pins")
	}
	if err := d.Timeline.Unpin(ctx, c.ID, args[0], names...); err != nil {
		return err
	}
	return a.Print(map[string]any{"checkpoint": c.ID, "pin": "", "unpinned": names}, func(p *cli.Printer) {
		p.Linef("unpinned %s: removed the name %s", cli.Label(c), cli.Inline(strings.Join(names, ", ")))
	})
}
