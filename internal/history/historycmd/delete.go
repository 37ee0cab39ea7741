package historycmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
)

func (a *app) delete() *cobra.Command {
	var purge bool
	c := &cobra.Command{
		Use: "delete THREAD", Short: "delete a thread, or erase it with --purge", Args: cobra.ExactArgs(1),
		Long: `Deletes a thread: no verb shows it any more. Forks keep the checkpoints that they begin
at, and the files in the directory stay as they are. If the user continues one of its
sessions, a new thread begins with the conversation that the agent still has.

With --purge the thread is erased: its pins are removed, and the store keeps no byte of
its conversation, titles and sessions, nor of file contents that only it had. The agent's
own session files, copies of the store, and turns that could not be recorded ('segno
doctor' lists them) are not erased.`,
		Example: "  segno delete bpyxf3\n  segno delete bpyxf3 --purge -y",
		RunE: a.InStore(func(ctx context.Context, store *local.Store, args []string) error {
			return a.runDelete(ctx, store, args[0], purge)
		}),
	}
	c.Flags().BoolVar(&purge, "purge", false, "erase it: remove every byte of it from the store")
	c.Flags().BoolVarP(&a.Yes, "yes", "y", false, "do it without asking")
	c.ValidArgsFunction = a.CompleteThreads
	return c
}

type deleteResult struct {
	Thread segno.ThreadID `json:"thread"`
	Purged bool           `json:"purged"`
	segno.Collection
}

// runDelete deletes a thread, or erases it if purge is set. Neither can be undone, so it asks
// first.
func (a *app) runDelete(ctx context.Context, store *local.Store, name string, purge bool) error {
	t, err := a.ThreadNamed(ctx, store, name)
	if err != nil {
		return err
	}
	head, err := store.Head(ctx, t.ID)
	if err != nil {
		return err
	}
	verb := "delete"
	if purge {
		verb = "erase"
	}
	if !a.Yes {
		a.Notef("%s thread %s, which has %d turns", verb, cli.Short(t.ID), head.Turn)
		if err := a.Confirm(verb); err != nil {
			return err
		}
	}
	res := deleteResult{Thread: t.ID, Purged: purge}
	if purge {
		res.Collection, err = store.PurgeThread(ctx, t.ID)
	} else {
		err = store.DeleteThread(ctx, t.ID)
	}
	if err != nil {
		return err
	}
	return a.Print(res, func(p *cli.Printer) {
		if purge {
			p.Linef("erased thread %s: dropped %s and %s (%s)", cli.Short(t.ID),
				cli.Plural(res.Checkpoints, "checkpoint"), cli.Plural(res.Objects, "object"), cli.Size(res.Bytes))
		} else {
			p.Linef("deleted thread %s", cli.Short(t.ID))
		}
	})
}
