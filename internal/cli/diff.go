package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/printable"
)

type diffFlags struct {
	names, stat, binary, conflicts bool
	identity                       string
	bases                          []string
}

func (a *app) diff() *cobra.Command {
	var flags diffFlags
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
				return unexpectedArg("diff", args[2], "give paths after --")
			case flags.conflicts && (len(args)+len(paths) > 0 || flags.names || flags.stat || flags.binary):
				return usage(errors.New("--conflicts takes no checkpoints, no paths and no other flags of diff"))
			case flags.names && flags.stat || flags.binary && (flags.names || flags.stat):
				return usage(errors.New("--names, --stat and --binary exclude each other"))
			case flags.conflicts:
				return a.inWorkspace(a.runConflicts)(c, nil)
			case slices.ContainsFunc(args, isArchiveName):
				return a.runArchiveDiff(c.Context(), args, paths, flags)
			case flags.identity != "" || len(flags.bases) > 0:
				return usage(errors.New("--identity and --base are for archives"))
			}
			return a.inWorkspace(func(ctx context.Context, d *openWorkspace, args []string) error {
				return a.runDiff(ctx, d, args, paths, flags)
			})(c, args)
		},
	}
	c.Flags().BoolVar(&flags.names, "names", false, "only the paths")
	c.Flags().BoolVar(&flags.stat, "stat", false, "only how many lines changed in each file")
	c.Flags().BoolVar(&flags.binary, "binary", false, "with the content of binary files, for 'git apply'")
	c.Flags().StringVar(&flags.identity, "identity", "", "decrypt archives with this `KEYFILE`")
	c.Flags().StringArrayVar(&flags.bases, "base", nil, "an archive that one of two deltas is based on, if it is not the other `FILE`; repeatable")
	c.Flags().BoolVar(&flags.conflicts, "conflicts", false, "show the conflicts of the last move")
	return c
}

// runDiff compares the trees of two checkpoints, or of a checkpoint and the present. It takes a snapshot of the
// present, because a diff needs the contents of both sides.
func (a *app) runDiff(ctx context.Context, d *openWorkspace, args, paths []string, flags diffFlags) error {
	states := make([]*segno.Snapshot, 2)
	for i, name := range append(args, "@")[:max(1, len(args))] {
		_, c, err := a.checkpointNamed(ctx, d, name)
		if err != nil {
			return err
		}
		if states[i] = c.Workspace; c.Tree().IsZero() {
			return segno.Errorf(segno.KindNotFound, "diff", name, "the checkpoint has no files").
				WithHint("run 'segno show " + inline(name) + "' to see what it records")
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
		states[1] = &now
	}
	changes, err := d.timeline.Workspace.Diff(ctx, states[0].Tree, states[1].Tree)
	if err != nil {
		return err
	}
	var databases []history.Change
	if len(paths) > 0 {
		changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return !isUnder(c.Path, paths) })
	} else if databases, err = diffDatabases(ctx, d, states[0], states[1]); err != nil {
		return err
	}
	return a.printDiff(databases, changes, flags, func(withBinary bool) patcher {
		return func(c segno.Change) (*patch.Patch, error) { return patch.Of(ctx, d.content, c, withBinary) }
	})
}

// diffDatabases describes the changes of attached databases between two states.
func diffDatabases(ctx context.Context, d *openWorkspace, from, to *segno.Snapshot) ([]history.Change, error) {
	changes, err := d.timeline.Databases(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return moves.Changes(ctx, d.timeline, changes, true)
}

// printDiff prints changes in the form that the flags choose. A patch contains the changes of databases as comments.
func (a *app) printDiff(databases []history.Change, changes []segno.Change, flags diffFlags, patches func(withBinary bool) patcher) error {
	all := history.Signed(changes)
	if len(databases) > 0 {
		all = append(databases, all...)
	}
	return a.printLong(all, func(p *printer) {
		if !flags.names {
			for _, c := range databases {
				p.diffLine("# " + c.Sign + " " + c.Name() + "\n")
			}
		}
		switch {
		case flags.names:
			p.changes(all)
		case flags.stat:
			p.fail(writeStat(p, changes, patches(false)))
		default:
			p.fail(writeDiff(p, changes, patches(flags.binary)))
		}
	})
}

// patcher makes the patch of a change.
type patcher func(segno.Change) (*patch.Patch, error)

// completeDiff offers checkpoints, or archives if the typed letters begin the name of a file.
func (a *app) completeDiff() completer {
	checkpoints := a.completeCheckpoints(2)
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		names, directive := checkpoints(c, args, typed)
		matching := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, typed) })
		if len(args) < 2 && !matching || len(args) == 1 && isArchiveName(args[0]) {
			return completeArchives(2)(c, args, typed)
		}
		return names, directive
	}
}

// isUnder reports whether a path is equal to or below one of paths.
func isUnder(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return p == "." || p == path || strings.HasPrefix(path, p+"/") })
}

// writeDiff writes one patch after the other, so it never has a large diff in memory.
func writeDiff(p *printer, changes []segno.Change, patchOf patcher) error {
	for _, c := range changes {
		change, err := patchOf(c)
		if err != nil {
			return err
		}
		text := change.String()
		if terminal(p.w) {
			text = printable.Patch(text)
		}
		for line := range strings.Lines(text) {
			p.diffLine(line)
		}
	}
	return nil
}

// maxBar is the length of the longest bar of diff --stat.
const maxBar = 40

// writeStat writes for each file how many of its lines changed, as git does.
func writeStat(p *printer, changes []segno.Change, patchOf patcher) error {
	var names []string
	var patches []*patch.Patch
	var width, most, added, deleted int
	for _, c := range changes {
		if c.From.Type == segno.EntityDir || c.From.Type == segno.EntityNone && c.To.Type == segno.EntityDir {
			continue
		}
		lines, err := patchOf(c)
		if err != nil {
			return err
		}
		lines.Text = "" // only the counts are needed
		names, patches = append(names, quotePath(c.Path)), append(patches, lines)
		width, most = max(width, visible(quotePath(c.Path))), max(most, lines.Added+lines.Deleted)
		added, deleted = added+lines.Added, deleted+lines.Deleted
	}
	bar := func(sign string, n int) string {
		if most > maxBar {
			n = (n*maxBar + most - 1) / most
		}
		return strings.Repeat(sign, n)
	}
	for i, x := range patches {
		what := p.added(bar("+", x.Added)) + p.gone(bar("-", x.Deleted))
		if x.Binary {
			what = "binary"
		}
		p.linef(" %s | %*d %s", pad(names[i], width), len(fmt.Sprint(most)), x.Added+x.Deleted, what)
	}
	if len(patches) > 0 {
		p.linef(" %s changed, %s(+), %s(-)", files(len(patches)), plural(added, "insertion"), plural(deleted, "deletion"))
	}
	return nil
}
