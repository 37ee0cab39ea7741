package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// saveResult is the result of save.
type saveResult struct {
	history.Item
	Unread []string `json:"unread,omitempty"` // paths that the checkpoint does not have
	// UnreadBytes are the same paths in base64, if one of them is not valid UTF-8.
	UnreadBytes [][]byte `json:"unread_bytes,omitempty"`
}

func (a *app) save() *cobra.Command {
	var message string
	c := &cobra.Command{
		Use:   "save [-m TEXT]",
		Short: "make a checkpoint now",
		Long: `Makes a checkpoint of the present files on the thread of the directory, or on a new thread
if there is none. It makes one even if no file has changed. The present rules apply: paths
that .segnoignore or a marker file protects are no longer recorded, even if the rule
appeared during a turn.`,
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
			unread := cp.Workspace.Unread
			return a.print(saveResult{h.Item(cp), unread, history.PathsBytes(unread)}, func(p *printer) {
				p.linef("%s", strings.TrimSpace(fmt.Sprintf("saved %s  %s  %s", label(cp), files(cp.Workspace.Files), counts(cp.Files))))
				if note := coverage(h, cp); note != "" {
					p.linef("%s", p.warn(note))
				}
				if len(unread) > 0 {
					p.linef("%s", p.warn(unreadNote(unread)))
				}
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "a name for it")
	return c
}
