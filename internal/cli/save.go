package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

func (a *app) save() *cobra.Command {
	var message string
	c := &cobra.Command{
		Use:     "save [-m TEXT]",
		Short:   "make a checkpoint now",
		Long:    "Makes a checkpoint of the files as they are, on the thread the directory stands on;\nwhere there is none, it starts one. It is made also when nothing changed.\nThe rules of the moment count: what .segnoignore or a marker file protects is no longer\nrecorded, even if the rule appeared during a turn.",
		Example: `  segno save -m "before the migration"`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			d, err := a.openOrRegister(ctx)
			if err != nil {
				return err
			}
			defer d.Close()
			cp, err := d.recorder().Save(ctx, segno.CheckpointSave, message)
			if err != nil {
				return err
			}
			h, err := readHistory(ctx, d.store, cp.Thread)
			if err != nil {
				return err
			}
			return a.print(h.item(cp), func(w io.Writer) error {
				fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("saved %s  %s  %s", label(cp), files(cp.Workspace.Files), counts(cp.Files))))
				if note := h.coverage(cp); note != "" {
					fmt.Fprintln(w, a.paint(w).warn(note))
				}
				return nil
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "what to call it")
	return c
}
