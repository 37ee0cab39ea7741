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
	"github.com/dalsegno/segno/internal/history/patch"
)

func (a *app) diff() *cobra.Command {
	var flags cli.DiffFlags
	c := &cobra.Command{
		Use:   "diff [FROM [TO]] [-- PATH…]",
		Short: "show the differences between two checkpoints, or one and the present",
		Long: `Shows the differences between two checkpoints. With one checkpoint, it compares that with
the present files; with none, it compares the head of the thread with them. Paths after
-- limit it to these.

Two arguments that end with .ckpt are archives. Paths are then those in the archive, and of
a conversation it shows only the records that differ.

The output is a patch for 'patch -p1' and 'git apply'. Comment lines describe what a patch
cannot contain: directories, permission bits other than x, hard links, and binary files
unless --binary writes them for 'git apply'.

--conflicts shows the paths that the last undo, redo or op undo left alone: for each path,
the difference between its present content and what --force would write.`,
		Example:           "  segno diff t2 t3\n  segno diff @- --stat\n  segno diff t2 -- src | git apply -R\n  segno diff --conflicts\n  segno diff a.ckpt b.ckpt --names",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeDiff(),
		RunE: func(c *cobra.Command, args []string) error {
			var paths []string
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args, paths = args[:dash:dash], args[dash:]
			}
			switch {
			case len(args) > 2:
				return cli.UnexpectedArg("diff", args[2], "give paths after --")
			case flags.Conflicts && (len(args)+len(paths) > 0 || flags.Names || flags.Stat || flags.Binary):
				return cli.Usage(errors.New("--conflicts takes no checkpoints, no paths and no other flags of diff"))
			case flags.Names && flags.Stat || flags.Binary && (flags.Names || flags.Stat):
				return cli.Usage(errors.New("--names, --stat and --binary exclude each other"))
			case flags.Conflicts:
				return a.InWorkspace(a.runConflicts)(c, nil)
			case a.ArchiveDiff != nil && slices.ContainsFunc(args, cli.IsArchiveName):
				return a.ArchiveDiff(c.Context(), args, paths, flags)
			case flags.Identity != "" || len(flags.Bases) > 0:
				return cli.Usage(errors.New("--identity and --base are for archives"))
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				return a.runDiff(ctx, d, args, paths, flags)
			})(c, args)
		},
	}
	c.Flags().BoolVar(&flags.Names, "names", false, "only the paths")
	c.Flags().BoolVar(&flags.Stat, "stat", false, "only how many lines changed in each file")
	c.Flags().BoolVar(&flags.Binary, "binary", false, "with the content of binary files, for 'git apply'")
	c.Flags().StringVar(&flags.Identity, "identity", "", "decrypt archives with this `KEYFILE`")
	c.Flags().StringArrayVar(&flags.Bases, "base", nil, "an archive that one of two deltas is based on, if it is not the other `FILE`; repeatable")
	c.Flags().BoolVar(&flags.Conflicts, "conflicts", false, "show the conflicts of the last move")
	return c
}

// runDiff compares the trees of two checkpoints, or of a checkpoint and the present. It takes a snapshot of the
// present, because a diff needs the contents of both sides.
func (a *app) runDiff(ctx context.Context, d *cli.Workspace, args, paths []string, flags cli.DiffFlags) error {
	states := make([]*segno.Snapshot, 2)
	filesOnly := len(paths) > 0 // the databases of a point inside a turn are not known
	for i, name := range append(args, "@")[:max(1, len(args))] {
		_, c, point, err := a.FilesNamed(ctx, d, name)
		if err != nil {
			return err
		}
		if point != nil {
			filesOnly = true
			for _, line := range moves.Inexact(point) {
				a.Notef("%s", line)
			}
		}
		if states[i] = c.Workspace; c.Tree().IsZero() {
			return segno.Errorf(segno.KindNotFound, "diff", name, "the checkpoint has no files").
				WithHint("run 'segno show " + cli.Inline(name) + "' to see what it records")
		}
		if i == 0 {
			if paths, err = cli.ResolvePaths(ctx, d, c, paths); err != nil {
				return err
			}
		}
	}
	if len(args) < 2 {
		now, err := d.Timeline.Snapshot(ctx)
		if err != nil {
			return err
		}
		states[1] = &now
	}
	changes, err := d.Timeline.Workspace.Diff(ctx, states[0].Tree, states[1].Tree)
	if err != nil {
		return err
	}
	var databases []history.Change
	if len(paths) > 0 {
		changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return !cli.IsUnder(c.Path, paths) })
	}
	if !filesOnly {
		if databases, err = diffDatabases(ctx, d, states[0], states[1]); err != nil {
			return err
		}
	}
	return a.PrintDiff(databases, changes, flags, func(withBinary bool) cli.Patcher {
		return func(c segno.Change) (*patch.Patch, error) { return patch.Of(ctx, d.Content, c, withBinary) }
	})
}

// diffDatabases describes the changes of attached databases between two states.
func diffDatabases(ctx context.Context, d *cli.Workspace, from, to *segno.Snapshot) ([]history.Change, error) {
	changes, err := d.Timeline.Databases(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return moves.Changes(ctx, d.Timeline, changes, true)
}

// completeDiff offers checkpoints, or archives if the typed letters begin the name of a file.
func (a *app) completeDiff() cli.Completer {
	checkpoints := a.CompleteCheckpoints(2)
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		names, directive := checkpoints(c, args, typed)
		matching := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, typed) })
		if len(args) < 2 && !matching || len(args) == 1 && cli.IsArchiveName(args[0]) {
			return cli.CompleteArchives(2)(c, args, typed)
		}
		return names, directive
	}
}
