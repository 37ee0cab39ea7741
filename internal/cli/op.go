package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/idprefix"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) op() *cobra.Command {
	c := &cobra.Command{
		Use: "op", Short: "list and undo the operations on this directory",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.opLog(), a.opUndo())
	return c
}

func (a *app) opLog() *cobra.Command {
	return &cobra.Command{
		Use: "log", Short: "list the operations on this directory, newest first", Args: cobra.NoArgs,
		Example: "  segno op log",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			d, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer d.Close()
			ops := []segno.Operation{}
			for op, err := range d.store.Operations(ctx, d.rec.ID) {
				if err != nil {
					return err
				}
				ops = append(ops, op)
			}
			return a.printLong(opItems(ops), func(w io.Writer) error { return a.writeOps(w, ops) })
		},
	}
}

// opItem is one element of op log --json. Fields are only ever added.
type opItem struct {
	segno.Operation
	Pin           *pinItem `json:"pin,omitempty"`
	Unpinned      string   `json:"unpinned,omitempty"` // the first of UnpinnedNames
	UnpinnedNames []string `json:"unpinned_names,omitempty"`
}

// pinItem is what a pin or unpin made of a checkpoint's names.
type pinItem struct {
	Checkpoint segno.CommitID `json:"checkpoint"`
	Name       string         `json:"name"` // the first of Names, or ""
	Names      []string       `json:"names"`
}

// opItems separates the names of pins, which an operation has as one text.
func opItems(ops []segno.Operation) []opItem {
	items := make([]opItem, len(ops))
	for i, op := range ops {
		items[i] = opItem{Operation: op, UnpinnedNames: segno.PinNames(op.Unpinned)}
		items[i].Unpinned = append(segno.PinNames(op.Unpinned), "")[0]
		if op.Pin != nil {
			names := append([]string{}, segno.PinNames(op.Pin.Name)...)
			items[i].Pin = &pinItem{Checkpoint: op.Pin.Checkpoint, Name: append(names, "")[0], Names: names}
		}
	}
	return items
}

func (a *app) writeOps(w io.Writer, ops []segno.Operation) error {
	p := a.paint(w)
	undone := map[segno.OperationID]bool{}
	for _, op := range ops {
		undone[op.Undoes] = true
		moved, note := "", ""
		if op.Before.Head != "" || op.After.Head != "" {
			moved = p.dim("  " + short(op.Before.Head) + " -> " + short(op.After.Head))
		}
		if undone[op.ID] {
			note = p.dim("  (undone)")
		}
		_, err := fmt.Fprintf(w, "%s %s %s %s%s%s\n", p.bold(short(segno.CommitID(op.ID))), p.dim(pad(chat.Age(a.now().Sub(op.Time)), 4)),
			pad(string(op.Verb), 7), clean(op.Args), moved, note)
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) opUndo() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "undo [OPERATION]", Short: "undo an operation, by default the newest",
		Long: `Moves the thread, the files and the conversation back to their state before an operation.
Later changes by other authors stay. It is refused after newer turns.`,
		Example: "  segno op undo\n  segno op undo k3xq2a -y",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.completeOperations,
		RunE: func(c *cobra.Command, args []string) error {
			return a.runOpUndo(c.Context(), append(args, "")[0], force)
		},
	}
	a.moveFlags(c)
	c.Flags().BoolVar(&force, "force", false, "overwrite conflicts; the present content is saved first")
	return c
}

func (a *app) runOpUndo(ctx context.Context, name string, force bool) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	ask := timeline.MoveRequest{Verb: segno.VerbOpUndo, Force: force}
	if name != "" {
		if ask.Op, err = operationNamed(ctx, d, name); err != nil {
			return err
		}
	}
	m := d.timeline
	op, err := m.FindOperation(ctx, ask.Op)
	if err != nil {
		return err
	}
	if op.MovesFiles() {
		return a.move(ctx, d, ask)
	}
	return a.undoWithoutFiles(ctx, m, op)
}

// undoWithoutFiles undoes an operation that moved no files.
func (a *app) undoWithoutFiles(ctx context.Context, m *timeline.Timeline, op segno.Operation) error {
	text := fmt.Sprintf("op undo %s: undid %s %s", short(segno.CommitID(op.ID)), op.Verb, clean(op.Args))
	if a.dryRun {
		text = "would undo: " + string(op.Verb) + " " + clean(op.Args)
	} else if err := m.UndoOperation(ctx, op); err != nil {
		return err
	}
	return a.print(map[string]any{"undoes": op.ID, "verb": op.Verb, "dry_run": a.dryRun}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		if err == nil && op.Forked != "" {
			_, err = fmt.Fprintln(w, "the fork's directory is kept")
		}
		return err
	})
}

func operationNamed(ctx context.Context, d *openWorkspace, name string) (segno.OperationID, error) {
	query := idprefix.Query{What: "operation", Name: name, Hint: "run 'segno op log'"}
	op, err := idprefix.Find(query, d.store.Operations(ctx, d.rec.ID), func(op segno.Operation) string { return string(op.ID) })
	return op.ID, err
}
