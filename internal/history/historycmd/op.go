package historycmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) op() *cobra.Command {
	return cli.Noun("op", "list and undo the operations on this directory", "", a.opLog(), a.opUndo(), a.opCancel())
}

func (a *app) opLog() *cobra.Command {
	return &cobra.Command{
		Use: "log", Short: "list the operations on this directory, newest first", Args: cobra.NoArgs,
		Example: "  segno op log",
		RunE: a.InWorkspace(func(ctx context.Context, d *cli.Workspace, _ []string) error {
			ops := []segno.Operation{}
			for op, err := range d.Store.Operations(ctx, d.Rec.ID) {
				if err != nil {
					return err
				}
				ops = append(ops, op)
			}
			whose, err := whoseTurns(ctx, d, ops)
			if err != nil {
				return err
			}
			requested, err := listRequested(ctx, d)
			if err != nil {
				return err
			}
			return a.PrintLong(history.Operations(ops), func(p *cli.Printer) {
				writeRequested(p, requested)
				a.writeOps(p, ops, whose)
			})
		}),
	}
}

// whoseTurns describes each operation by the thread that it moved and the newest turn that it undid or redid. The map
// is empty if all operations are about one thread.
func whoseTurns(ctx context.Context, d *cli.Workspace, ops []segno.Operation) (map[segno.OperationID]string, error) {
	threads := map[segno.ThreadID]bool{}
	for _, op := range ops {
		threads[op.Thread] = true
	}
	whose := map[segno.OperationID]string{}
	if len(threads) < 2 {
		return whose, nil
	}
	for _, op := range ops {
		text := "thread " + cli.Short(op.Thread)
		prompt, err := (&history.Operation{Operation: op}).About(ctx, d.Store)
		if err != nil {
			return nil, err
		}
		if prompt != "" {
			text += " (" + cli.Quote(cli.Fit(prompt, 40)) + ")"
		}
		whose[op.ID] = text
	}
	return whose, nil
}

func (a *app) writeOps(p *cli.Printer, ops []segno.Operation, whose map[segno.OperationID]string) {
	undone := map[segno.OperationID]bool{}
	for _, op := range ops { // newest first
		undone[op.Undoes] = true
		var notes string
		if op.Before.Head != "" || op.After.Head != "" {
			notes = p.Dim("  " + cli.Short(op.Before.Head) + " -> " + cli.Short(op.After.Head))
		}
		if op.Actor != "" {
			notes += p.Dim("  via " + cli.Clean(op.Actor))
		}
		if undone[op.ID] {
			notes += p.Dim("  (undone)")
		}
		if text := whose[op.ID]; text != "" {
			notes += "  " + p.Dim(text)
		}
		p.Linef("%s %s %s%s", a.Lead(p.Paint, cli.Short(op.ID), op.Time), cli.Pad(string(op.Verb), 7), cli.Clean(op.Args), notes)
	}
}

func (a *app) opUndo() *cobra.Command {
	var ask timeline.MoveRequest
	c := &cobra.Command{
		Use: "undo [OPERATION]", Short: "undo an operation, by default the newest",
		Long: `Moves the thread, the files and the conversation back to their state before an operation.
Changes by other authors stay, also those made while the operation ran. It is refused after
newer turns. To undo a fork forgets its thread, and keeps a fork that has anything of its
own; its directory stays.`,
		Example: "  segno op undo\n  segno op undo k3xq2a -y",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.CompleteInWorkspace(1, cli.OperationNames),
		RunE: a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
			return a.runOpUndo(ctx, d, ask, args)
		}),
	}
	a.MoveFlags(c, &ask)
	cli.ForceFlag(c, &ask)
	return c
}

func (a *app) runOpUndo(ctx context.Context, d *cli.Workspace, ask timeline.MoveRequest, args []string) error {
	ask.Verb = segno.VerbOpUndo
	if len(args) > 0 && args[0] != "" {
		query := idprefix.Query{What: "operation", Name: args[0], Hint: "run 'segno op log'"}
		op, err := idprefix.Find(query, d.Store.Operations(ctx, d.Rec.ID), func(op segno.Operation) string { return string(op.ID) })
		if err != nil {
			return err
		}
		ask.Op = op.ID
	}
	if ask.Op == "" { // the newest operation may be an interrupted move, which is not in the log yet
		completed, err := d.Timeline.CompletePending(ctx)
		if err == nil {
			err = completed.CheckRepeated(ask)
		}
		if err != nil {
			return err
		}
	}
	op, err := d.Timeline.FindOperation(ctx, ask.Op)
	if err != nil {
		return err
	}
	if op.MovesFiles() {
		return a.Move(ctx, d, ask)
	}
	about := ""
	if op.Forked != "" {
		again, err := d.Timeline.MakesFork(ctx, op)
		if err != nil {
			return err
		}
		if about = "the fork's thread is forgotten; its files are kept"; again {
			about = "the fork gets a new thread; its files are as they are now"
		}
	}
	if !a.DryRun && !a.Yes {
		a.Bar.Erase()
		p := a.Printer(a.Stderr)
		p.Linef("undo %s %s", op.Verb, cli.Clean(op.Args))
		if about != "" {
			p.Linef("  %s", about)
		}
		if p.Err != nil {
			return p.Err
		}
		if err := a.Confirm("op undo"); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("op undo %s: undid %s %s", cli.Short(op.ID), op.Verb, cli.Clean(op.Args))
	if a.DryRun {
		text = "would undo: " + string(op.Verb) + " " + cli.Clean(op.Args)
	} else if err := d.Timeline.UndoOperation(ctx, op); err != nil {
		return err
	}
	return a.Print(map[string]any{"undoes": op.ID, "verb": op.Verb, "dry_run": a.DryRun}, func(p *cli.Printer) {
		p.Linef("%s", text)
		if about != "" {
			p.Linef("%s", about)
		}
	})
}
