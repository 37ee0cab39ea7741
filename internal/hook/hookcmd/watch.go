package hookcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/workspace"
)

func (a *app) watch() *cobra.Command {
	return &cobra.Command{
		Use: "watch", Short: "watch this directory, so that the hooks of agents read only what changed",
		Long: `Watches the directory until Ctrl-C. A hook that records the beginning or the end of a turn
asks this process which directories changed, and reads only those. Everything works without
it: a hook reads every directory if there is no answer within milliseconds, if changes may
have been lost, and before every move of files. 'segno acp' needs no other process to do the same.

A program can change a file in ways that the system does not report, as through a shared
mapping or a hard link from elsewhere. While nothing happens, this process compares the whole
directory with the last snapshot and counts such changes. After the first one, hooks read
every directory again. 'segno status' shows the counts.

It needs Linux, and a local file system.`,
		Example: "  segno watch",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := a.OpenOrRegister(c.Context())
			if err != nil {
				return err
			}
			defer d.Close()
			return a.runWatch(c.Context(), d)
		},
	}
}

func (a *app) runWatch(ctx context.Context, d *cli.Workspace) error {
	d.Store.Watch(ctx, func(format string, args ...any) { a.Notef("segno watch: "+format, args...) })
	var watch *workspace.Watch
	err := d.Store.ShareWatch(ctx, d.Rec, func(w *workspace.Watch) {
		watch = w
		a.Notef("watching %s with %s; Ctrl-C ends it", cli.QuotePath(d.Rec.Path), w.Stats().Kind)
	})
	if err != nil || watch == nil {
		return err
	}
	s := watch.Stats()
	return a.Print(s, func(p *cli.Printer) { p.Linef("%s", cli.WatchText(s)) })
}
