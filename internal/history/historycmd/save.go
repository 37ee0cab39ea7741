package historycmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history"
)

type saveResult struct {
	history.Item
	Unread []string `json:"unread,omitempty"` // paths that the checkpoint lacks
	// UnreadBytes are the same paths in base64, if one of them is not valid UTF-8.
	UnreadBytes [][]byte `json:"unread_bytes,omitempty"`

	UnreadDatabases []history.UnreadDatabase `json:"unread_databases,omitempty"`
}

func (a *app) save() *cobra.Command {
	var message string
	c := &cobra.Command{
		Use:   "save [-m TEXT]",
		Short: "make a checkpoint now",
		Long: `Makes a checkpoint of the present files on the thread of the directory, or on a new thread
if there is none. It makes one even if no file has changed. The present rules apply: paths
that .segnoignore or a marker file protects are no longer recorded, even if the rule
appeared during a turn. If an attached database cannot be read, the checkpoint is made without
it, and the exit code is 4.

'segno save' makes a checkpoint; 'segno pin' names one that is there, and 'segno sessions keep'
stores an agent's own session.`,
		Example: `  segno save -m "before the migration"`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			d, err := a.OpenOrRegister(ctx)
			if err != nil {
				return err
			}
			defer d.Close()
			cp, err := d.Timeline.Save(ctx, segno.CheckpointSave, message)
			if err != nil {
				return err
			}
			h, err := history.Read(ctx, d.Store, cp.Thread)
			if err != nil {
				return err
			}
			unread, _ := history.Unread(cp.Workspace) // UnreadDatabases has the reasons for databases
			res := saveResult{Item: h.Item(cp), Unread: unread, UnreadBytes: history.PathsBytes(unread)}
			if res.UnreadDatabases, err = cli.UnreadDatabases(ctx, d, cp); err != nil {
				return err
			}
			err = a.Print(res, func(p *cli.Printer) {
				p.Linef("%s", strings.TrimSpace(fmt.Sprintf("saved %s  %s  %s", cli.Label(cp), cli.Files(cp.Workspace.Files), cli.Counts(cp.Files))))
				if note := coverage(h, cp); note != "" {
					p.Linef("%s", p.Warn(note))
				}
				if len(unread) > 0 {
					p.Linef("%s", p.Warn(unreadNote(unread)))
				}
				p.UnreadDatabases(res.UnreadDatabases)
			})
			return cli.WithUnread(err, res.UnreadDatabases)
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "a name for it")
	return c
}
