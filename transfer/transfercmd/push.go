package transfercmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/transfer"
)

func (a *app) push() *cobra.Command {
	var remote remoteFlags
	c := &cobra.Command{
		Use:   "push [THREAD] --remote URL",
		Short: "copy a thread to a server",
		Long: `Copies a thread (default: the thread of the directory) to the store of a server: all its
commits, pins and sessions with their ids, and only the objects that the server lacks. Turns of
the agent's session that segno has not recorded are kept first. Changes of files since the last
checkpoint are not; 'segno save' saves them.

If the thread has no new commits on the server, the push moves it there to where it is
here. If both sides have new commits, those of this side become a line there: nothing is
overwritten, the thread there stays, and the exit code is 4. A push that was interrupted
continues when it is run again.

` + remoteText,
		Example: "  SEGNO_TOKEN=$(cat ~/.config/segno-token) segno push --remote https://segno.example.com\n" +
			"  segno push 3f2a --remote http://127.0.0.1:7777 --token-file token --dry-run",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteThreads,
		RunE: func(c *cobra.Command, args []string) error {
			return a.runPush(c.Context(), args, remote)
		},
	}
	remote.add(c)
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "count what would be sent and stop")
	return c
}

func (a *app) runPush(ctx context.Context, args []string, flags remoteFlags) error {
	remote, err := flags.open(a)
	if err != nil {
		return err
	}
	defer remote.Close()
	store, thread, err := a.pushedThread(ctx, args)
	if err != nil {
		return err
	}
	defer store.Close()
	if !store.ReadOnly() && !a.DryRun {
		if err := a.keepNewest(ctx, store, thread); err != nil {
			return err
		}
	}
	done, err := transfer.Copy(ctx, store, remote, thread.ID, transfer.Options{DryRun: a.DryRun, Progress: a.Count("pushing", "object")})
	if err != nil {
		return err
	}
	res := newItem(done, flags.address, a.DryRun)
	if err := a.Print(res, func(p *cli.Printer) { a.writePush(p, &res) }); err != nil {
		return err
	}
	if res.isPartial() && !a.DryRun {
		return cli.ErrSilent
	}
	return nil
}

// pushedThread opens the store and returns the thread that the arguments name.
func (a *app) pushedThread(ctx context.Context, args []string) (*local.Store, segno.Thread, error) {
	if len(args) == 0 {
		args = []string{a.ThreadName}
	}
	if args[0] == "" {
		d, err := a.Open(ctx)
		if err != nil {
			return nil, segno.Thread{}, err
		}
		id, err := a.ThreadID(ctx, d)
		if err != nil {
			d.Close()
			return nil, segno.Thread{}, err
		}
		args[0] = string(id)
		d.Close()
	}
	store, err := a.OpenStore(ctx)
	if err != nil {
		return nil, segno.Thread{}, err
	}
	t, err := a.ThreadNamed(ctx, store, args[0])
	if err != nil {
		store.Close()
	}
	return store, t, err
}

// keepNewest completes the commits that wait for the store, and keeps the turns of the head session that segno has not
// recorded.
func (a *app) keepNewest(ctx context.Context, store *local.Store, t segno.Thread) error {
	rec, exists, err := store.ThreadWorkspace(ctx, t)
	if err != nil {
		return err
	}
	if exists {
		tl, err := store.Timeline(rec, nil)
		if err != nil {
			return err
		}
		if _, err := tl.CompletePending(ctx); err != nil {
			return err
		}
		if err := tl.CloseLeft(ctx); err != nil {
			return err
		}
	}
	open, err := store.OpenThreads(ctx)
	if err != nil {
		return err
	}
	if _, isOpen := open[t.ID]; isOpen {
		a.Notef("a turn is open; push again when it has ended")
		return nil // the end of the turn records the session
	}
	head, err := store.Head(ctx, t.ID)
	if err != nil || head.Link.Session == "" {
		return err
	}
	s, err := a.SessionNamed(ctx, store.Place(), store, string(head.Link.Session))
	if segno.KindOf(err) == segno.KindNotFound || err == nil && s.Path == "" {
		return nil // the agent no longer has it
	}
	if err != nil {
		return err
	}
	d, err := a.Detail(ctx, store, s)
	if err == nil {
		_, err = store.SessionTimeline().KeepSession(ctx, cli.KeepRequest(ctx, store, d))
	}
	if segno.KindOf(err) == segno.KindNotFound {
		return nil // it has no conversation
	}
	return err
}

func (a *app) writePush(p *cli.Printer, res *item) {
	verb := "pushed"
	if res.DryRun {
		verb = "push"
	}
	p.Linef("%s %s to %s: %s", verb, cli.Short(res.Thread), cli.Clean(res.Remote), res.amount())
	if res.DryRun {
		return
	}
	if res.Left != "" {
		p.Linef("the thread there was at %s, which is not on the line to %s: it is another line there now", cli.Short(res.Left), cli.Short(res.Head))
	}
	switch res.Outcome {
	case transfer.Behind:
		p.Linef("the thread there is ahead, at %s; bring it here with 'segno pull'", cli.Short(res.Head))
	case transfer.Diverged:
		p.Linef("both sides have new commits: those of this side are a line there, up to %s, and the thread there stays at %s", cli.Short(res.Source), cli.Short(res.Head))
		p.Linef("to continue from the line there, run 'segno restore %s' where the thread works", cli.Short(res.Source))
	case transfer.Kept:
		p.Linef("the thread there stays at %s: %s", cli.Short(res.Head), cli.Clean(res.Why))
		p.Linef("the commits are there, up to %s", cli.Short(res.Source))
	}
}
