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
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

func (a *app) restore() *cobra.Command {
	var ask timeline.MoveRequest
	var chat, files, patch bool
	c := &cobra.Command{
		Use:   "restore CHECKPOINT [PATH…] | restore PATH",
		Short: "go to any checkpoint, or bring a file back",
		Long: `Makes the files and the conversation exactly as they were at a checkpoint. The present is
saved first. --files or --chat moves only one of them; paths move only those. Such a
partial move becomes a new checkpoint. A path alone comes back from the newest checkpoint that
has it. --patch asks about each hunk, as 'git checkout -p' does, and restores the chosen ones;
the conversation stays.

t7.3 is the end of the third call of turn 7, as 'segno show t7' counts them. Such a point has
files only, and only if the hooks saved those that tools wrote. What a command changed is
known when the turn ends: the plan names the files that may have been different.

A path is relative to the current directory, or as segno prints it: relative to the
workspace, and in double quotes with the escapes of C if it has characters that cannot be
printed ("new\nline", "caf\351").`,
		Example:           "  segno restore t2\n  segno restore .env\n  segno restore t2 --files src/a.go\n  segno restore @- --chat -y\n  segno restore t7.3",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpointThenFiles(),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case chat && files:
				return cli.Usage(errors.New("--chat and --files exclude each other; without either, both move"))
			case chat && patch:
				return cli.Usage(errors.New("--patch restores parts of files, and --chat no files"))
			case chat:
				ask.Scope = timeline.ScopeChat
			case files || patch || len(args) > 1:
				ask.Scope = timeline.ScopeFiles
			default:
				ask.Scope = timeline.ScopeBoth
			}
			if patch {
				ask.Parts = map[string][]int{}
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				return a.runRestore(ctx, d, ask, args)
			})(c, args)
		},
	}
	a.MoveFlags(c, &ask)
	c.Flags().BoolVar(&chat, "chat", false, "the conversation only")
	c.Flags().BoolVar(&files, "files", false, "the files only")
	cli.PatchFlag(c, &patch)
	return c
}

func (a *app) runRestore(ctx context.Context, d *cli.Workspace, ask timeline.MoveRequest, args []string) error {
	h, c, point, err := a.FilesNamed(ctx, d, args[0])
	if segno.KindOf(err) == segno.KindNotFound && h != nil && point == nil && len(args) == 1 && ask.Scope != timeline.ScopeChat {
		return a.restorePath(ctx, d, h, ask, args[0], err)
	}
	if err == nil && len(args) == 1 && ask.Scope != timeline.ScopeChat {
		err = refuseAmbiguous(ctx, d, h, c, args[0])
	}
	if err != nil {
		return err
	}
	ask.Verb, ask.To, ask.Name = segno.VerbRestore, c.ID, cli.Label(c)
	if point != nil {
		ask.Point, ask.Name = point.Call, point.Name()
		if ask.Scope == timeline.ScopeBoth {
			ask.Scope = timeline.ScopeFiles
		}
	}
	if ask.Paths, err = cli.ResolvePaths(ctx, d, c, args[1:]); err != nil {
		return err
	}
	return a.Move(ctx, d, ask)
}

// restorePath restores a path from the newest checkpoint that has it. It returns the error none, which says that the argument is
// not a checkpoint, if no checkpoint has such a path.
func (a *app) restorePath(ctx context.Context, d *cli.Workspace, h *history.History, ask timeline.MoveRequest, arg string, none error) error {
	c, path, err := newestWith(ctx, d, h, arg)
	if err != nil {
		return err
	}
	if c == nil {
		return segno.Errorf(segno.KindNotFound, "restore", arg, "it is neither a checkpoint nor a path that a checkpoint has").WithHint(segno.HintOf(none))
	}
	ask.Verb, ask.To, ask.Name, ask.Scope, ask.Paths = segno.VerbRestore, c.ID, cli.Label(c), timeline.ScopeFiles, []string{path}
	plan, err := d.Timeline.Preview(ctx, ask)
	if err != nil {
		return err
	}
	if len(plan.Steps) == 0 && plan.Complete() && len(plan.Kept) == 0 {
		return segno.Errorf(segno.KindRefused, "restore", arg, "it is as it was at %s, the newest checkpoint that has it", cli.Label(c)).
			WithHint("name an older checkpoint before the path; 'segno log -- " + cli.ShellQuote(arg) + "' lists those that changed it")
	}
	return a.Move(ctx, d, ask)
}

// refuseAmbiguous returns an error for the beginning of the id of a checkpoint that is also a path. The whole thread would move
// where the user may mean a file.
func refuseAmbiguous(ctx context.Context, d *cli.Workspace, h *history.History, c *segno.Checkpoint, arg string) error {
	isBeginning := strings.HasPrefix(string(c.ID), arg) && string(c.ID) != arg && !slices.Contains(h.Pins[c.ID], arg)
	if !isBeginning || idprefix.IsTurnName(arg) {
		return nil
	}
	if with, _, err := newestWith(ctx, d, h, arg); err != nil || with == nil {
		return err
	}
	return segno.Errorf(segno.KindInvalid, "restore", arg, "it is a path, and the beginning of the id of %s", cli.Label(c)).
		WithHint("give more letters of the id, or the path as ./" + cli.Clean(arg))
}

// newestWith returns the newest checkpoint on any line that has a path, and the path relative to the root. Without such a
// checkpoint it returns nil.
func newestWith(ctx context.Context, d *cli.Workspace, h *history.History, arg string) (*segno.Checkpoint, string, error) {
	paths, err := cli.NamedPaths(d, arg)
	if err != nil {
		return nil, "", err
	}
	var without segno.Hash // the tree of the last checkpoint that did not have it
	for i := range h.All {
		c := &h.All[i]
		if c.Tree() == without || c.Tree().IsZero() || c.Workspace.Workspace != d.Rec.ID {
			continue
		}
		e, path, err := cli.FileAt(ctx, d, c, paths, workspace.Lookup)
		if err != nil && segno.KindOf(err) != segno.KindNotFound {
			return nil, "", err
		}
		if err == nil && e.Type != segno.EntityProtected { // the content of a protected path is not stored
			return c, path, nil
		}
		without = c.Tree()
	}
	return nil, "", nil
}
