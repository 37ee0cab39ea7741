package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
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
it, and the exit code is 4.`,
		Example: `  segno save -m "before the migration"`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			d, err := a.openOrRegister(ctx)
			if err != nil {
				return err
			}
			defer d.Close()
			cp, err := d.timeline.Save(ctx, segno.CheckpointSave, message)
			if err != nil {
				return err
			}
			h, err := history.Read(ctx, d.store, cp.Thread)
			if err != nil {
				return err
			}
			unread, _ := history.Unread(cp.Workspace) // unreadDatabases has the reasons for databases
			res := saveResult{Item: h.Item(cp), Unread: unread, UnreadBytes: history.PathsBytes(unread)}
			if res.UnreadDatabases, err = unreadDatabases(ctx, d, cp); err != nil {
				return err
			}
			err = a.print(res, func(p *printer) {
				p.linef("%s", strings.TrimSpace(fmt.Sprintf("saved %s  %s  %s", label(cp), files(cp.Workspace.Files), counts(cp.Files))))
				if note := coverage(h, cp); note != "" {
					p.linef("%s", p.warn(note))
				}
				if len(unread) > 0 {
					p.linef("%s", p.warn(unreadNote(unread)))
				}
				p.unreadDatabases(res.UnreadDatabases)
			})
			return withUnread(err, res.UnreadDatabases)
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "a name for it")
	return c
}
