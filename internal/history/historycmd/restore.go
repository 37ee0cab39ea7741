package historycmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) restore() *cobra.Command {
	var ask timeline.MoveRequest
	var chat, files bool
	c := &cobra.Command{
		Use:   "restore CHECKPOINT [PATH…]",
		Short: "go to any checkpoint, or take its files, its conversation or some paths",
		Long: `Makes the files and the conversation exactly as they were at a checkpoint. The present is
saved first. --files or --chat moves only one of them; paths move only those. Such a
partial move becomes a new checkpoint.

A path is relative to the current directory, or as segno prints it: relative to the
workspace, and in double quotes with the escapes of C if it has characters that cannot be
printed ("new\nline", "caf\351").`,
		Example:           "  segno restore t2\n  segno restore t2 --files src/a.go\n  segno restore @- --chat -y",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpointThenFiles(),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case chat && files:
				return cli.Usage(errors.New("--chat and --files exclude each other; without either, both move"))
			case chat:
				ask.Scope = timeline.ScopeChat
			case files || len(args) > 1:
				ask.Scope = timeline.ScopeFiles
			default:
				ask.Scope = timeline.ScopeBoth
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				return a.runRestore(ctx, d, ask, args)
			})(c, args)
		},
	}
	a.MoveFlags(c, &ask)
	c.Flags().BoolVar(&chat, "chat", false, "the conversation only")
	c.Flags().BoolVar(&files, "files", false, "the files only")
	return c
}

func (a *app) runRestore(ctx context.Context, d *cli.Workspace, ask timeline.MoveRequest, args []string) error {
	_, c, err := a.CheckpointNamed(ctx, d, args[0])
	if err != nil {
		return err
	}
	ask.Verb, ask.To, ask.Name = segno.VerbRestore, c.ID, cli.Label(c)
	if ask.Paths, err = cli.ResolvePaths(ctx, d, c, args[1:]); err != nil {
		return err
	}
	return a.Move(ctx, d, ask)
}
