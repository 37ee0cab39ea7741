package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

// diffFlags are the flags of diff.
type diffFlags struct{ names, stat, binary, conflicts bool }

func (a *app) diff() *cobra.Command {
	var flags diffFlags
	c := &cobra.Command{
		Use:   "diff [FROM [TO]] [-- PATH…]",
		Short: "show the differences between two checkpoints, or one and the present",
		Long: `Shows the differences between two checkpoints. With one checkpoint, it compares that with
the present files; with none, it compares the head of the thread with them. Paths after
-- limit it to these.

The output is a patch for 'patch -p1' and 'git apply'. Comment lines describe what a patch
cannot contain: directories, permission bits other than x, hard links, and binary files
unless --binary writes them for 'git apply'.

--conflicts shows the paths that the last undo, redo or op undo left alone: for each path,
the difference between its present content and what --force would write.`,
		Example:           "  segno diff t2 t3\n  segno diff @- --stat\n  segno diff t2 -- src | git apply -R\n  segno diff --conflicts",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeCheckpoints,
		RunE: func(c *cobra.Command, args []string) error {
			var paths []string
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args, paths = args[:dash:dash], args[dash:]
			}
			switch {
			case len(args) > 2:
				return segno.NewError(segno.KindInvalid, "diff", "", usageError{fmt.Errorf("unexpected argument %q", args[2])}).WithHint("give paths after --")
			case flags.conflicts && (len(args)+len(paths) > 0 || flags.names || flags.stat || flags.binary):
				return usage(errors.New("--conflicts takes no checkpoints, no paths and no other form"))
			case flags.names && flags.stat || flags.binary && (flags.names || flags.stat):
				return usage(errors.New("--names, --stat and --binary exclude each other"))
			case flags.conflicts:
				return a.runConflicts(c.Context())
			}
			return a.runDiff(c.Context(), args, paths, flags)
		},
	}
	c.Flags().BoolVar(&flags.names, "names", false, "only the paths")
	c.Flags().BoolVar(&flags.stat, "stat", false, "only how many lines changed in each file")
	c.Flags().BoolVar(&flags.binary, "binary", false, "with the content of binary files, for 'git apply'")
	c.Flags().BoolVar(&flags.conflicts, "conflicts", false, "show the conflicts of the last move")
	return c
}

func (a *app) runDiff(ctx context.Context, args, paths []string, flags diffFlags) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	trees := make([]segno.Hash, 2)
	for i, name := range append(args, "@")[:max(1, len(args))] {
		_, c, err := a.checkpointNamed(ctx, d, name)
		if err != nil {
			return err
		}
		if trees[i] = c.Tree(); trees[i].IsZero() {
			return segno.Errorf(segno.KindNotFound, "diff", name, "the files were not recorded then")
		}
		if i == 0 {
			if paths, err = resolvePaths(ctx, d, c, paths); err != nil {
				return err
			}
		}
	}
	if len(args) < 2 {
		now, err := d.timeline.Snapshot(ctx)
		if err != nil {
			return err
		}
		trees[1] = now.Tree
	}
	changes, err := d.timeline.Workspace.Diff(ctx, trees[0], trees[1])
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return !isUnder(c.Path, paths) })
	}
	return a.printLong(signed(changes), func(w io.Writer) error {
		switch {
		case flags.names:
			return writeChanges(w, a.paint(w), signed(changes), nil)
		case flags.stat:
			return a.writeStat(ctx, w, d, changes)
		}
		return a.writeDiff(ctx, w, d, changes, flags.binary)
	})
}

// isUnder reports whether a path is one of paths, or below one.
func isUnder(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return p == "." || p == path || strings.HasPrefix(path, p+"/") })
}

func (a *app) writeDiff(ctx context.Context, w io.Writer, d *openWorkspace, changes []segno.Change, whole bool) error {
	p := a.paint(w)
	for _, c := range changes {
		change, err := patchOf(ctx, d, c, whole)
		if err != nil {
			return err
		}
		text := change.String()
		if terminal(w) {
			text = cleanText(text)
		}
		if err := paintDiff(w, p, strings.SplitAfter(text, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// cleanText is a diff as a terminal may see it: what a file holds must not drive it. In a
// file or a pipe a diff is exact.
func cleanText(text string) string {
	return escape(text, func(r rune) bool { return r != '\n' && r != '\t' && unsafe(r) && !joins(r) })
}
