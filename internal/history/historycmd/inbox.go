package historycmd

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) inbox() *cobra.Command {
	return &cobra.Command{
		Use: "inbox", Short: "open questions of all threads", Args: cobra.NoArgs,
		Long: `Lists the questions of Go agents that wait for a decision, in all directories. A thread that sleeps, or that
waits for a program, is not listed; 'segno threads --status waiting' lists it.
'segno chat' answers those of its threads.`,
		Example: "  segno inbox --json",
		RunE:    a.InStore(a.runInbox),
	}
}

type inboxItem struct {
	Thread segno.ThreadID `json:"thread"`
	segno.Interrupt
}

func (a *app) runInbox(ctx context.Context, store *local.Store, _ []string) error {
	items := []inboxItem{}
	for q, err := range threadFinder(store).Inbox(ctx, "") {
		if err != nil {
			return err
		}
		items = append(items, inboxItem{segno.ThreadID(q.Thread), q.Interrupt})
	}
	return a.Print(items, func(p *cli.Printer) {
		for _, q := range items {
			question := timeline.Title(cmp.Or(q.Text(), string(q.Args)))
			p.Linef("%s %s %s", a.Lead(p.Paint, cli.Short(q.Thread), q.Asked), cli.Inline(q.Tool), cli.CleanLines(question))
		}
	})
}
