package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

func (a *app) diff() *cobra.Command {
	var names, conflicts bool
	c := &cobra.Command{
		Use:   "diff [FROM [TO]]",
		Short: "what differs between two checkpoints, or one and the present",
		Long: `Shows what differs between two checkpoints. With one, between it and the files as
they are now; with none, between where the thread stands and now.

--conflicts shows what the last undo, redo or op undo left as it is: for each path,
from what is there now to what --force would write.`,
		Example:           "  segno diff t2 t3\n  segno diff @- --names\n  segno diff --conflicts",
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.completeCheckpoints,
		RunE: func(c *cobra.Command, args []string) error {
			if conflicts {
				if len(args) > 0 || names {
					return usage(errors.New("--conflicts takes no checkpoints and no --names"))
				}
				return a.runConflicts(c.Context())
			}
			return a.runDiff(c.Context(), args, names)
		},
	}
	c.Flags().BoolVar(&names, "names", false, "only the paths")
	c.Flags().BoolVar(&conflicts, "conflicts", false, "what the last move left as it is")
	return c
}

func (a *app) runDiff(ctx context.Context, args []string, names bool) error {
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
			return &segno.Error{Op: "diff", Name: name, Kind: segno.KindNotFound, Err: fmt.Errorf("the files were not recorded then")}
		}
	}
	if len(args) < 2 {
		now, err := d.present(ctx)
		if err != nil {
			return err
		}
		trees[1] = now.Tree
	}
	changes, err := d.site.Workspace.Diff(ctx, trees[0], trees[1])
	if err != nil {
		return err
	}
	return a.printLong(signed(changes), func(w io.Writer) error {
		if names {
			return writeChanges(w, a.paint(w), signed(changes), nil)
		}
		return a.writeDiff(ctx, w, d, changes)
	})
}

// present snapshots the workspace and keeps its objects, so that they can be read.
func (d *desk) present(ctx context.Context) (segno.Snapshot, error) {
	unlock, err := d.site.Journal.Lock(ctx, d.rec.ID)
	if err != nil {
		return segno.Snapshot{}, err
	}
	defer unlock()
	if err := d.site.CoverTurns(ctx); err != nil {
		return segno.Snapshot{}, err
	}
	batch := d.store.Objects().Batch()
	defer batch.Close()
	snap, err := d.site.Workspace.Snapshot(ctx, batch)
	if err != nil {
		return segno.Snapshot{}, err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return segno.Snapshot{}, err
	}
	return snap, d.store.Objects().Keep(ctx, staged)
}

func (a *app) writeDiff(ctx context.Context, w io.Writer, d *desk, changes []segno.Change) error {
	p := a.paint(w)
	for _, c := range changes {
		text, err := unified(ctx, d, c)
		if err != nil {
			return err
		}
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

// unified writes one change: a unified diff of texts, a line about anything else.
func unified(ctx context.Context, d *desk, c segno.Change) (string, error) {
	sign := signed([]segno.Change{c})[0]
	head := sign.Sign + " " + sign.name() + "\n"
	if c.From.Type != segno.EntityFile && c.To.Type != segno.EntityFile {
		return head + about(c), nil
	}
	from, err := content(ctx, d, c.From)
	if err != nil {
		return "", err
	}
	to, err := content(ctx, d, c.To)
	if err != nil {
		return "", err
	}
	if binary(from) || binary(to) {
		return head + "  binary\n" + about(c), nil
	}
	body := diff.Diff(quotePath("a/"+c.Path), from, quotePath("b/"+c.Path), to)
	if i := bytes.Index(body, []byte("\n---")); i >= 0 {
		body = body[i+1:]
	}
	return head + about(c) + string(body), nil
}

// about says what else than content a change changes.
func about(c segno.Change) string {
	var s string
	if c.From.Type != "" && c.To.Type != "" && c.From.Type != c.To.Type {
		s += fmt.Sprintf("  %s became %s\n", c.From.Type, c.To.Type)
	}
	if c.From.Type != "" && c.To.Type != "" && c.From.Mode != c.To.Mode {
		s += fmt.Sprintf("  mode %04o became %04o\n", c.From.Mode, c.To.Mode)
	}
	if c.To.Target != "" && c.From.Target != c.To.Target {
		s += fmt.Sprintf("  -> %s\n", quotePath(c.To.Target))
	}
	return s
}

func content(ctx context.Context, d *desk, e segno.Entity) ([]byte, error) {
	if e.Type != segno.EntityFile {
		return nil, nil
	}
	return d.store.Objects().Get(ctx, e.Hash)
}

// binary looks for a NUL in the beginning, as git does.
func binary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }
