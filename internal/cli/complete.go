package cli

import (
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
)

// completeCheckpoints offers the names of the thread's checkpoints to the shell.
func (a *app) completeCheckpoints(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx := c.Context()
	d, err := a.open(ctx)
	if err != nil {
		return nil, none
	}
	defer d.Close()
	thread, err := a.threadID(ctx, d)
	if err != nil {
		return nil, none
	}
	h, err := readHistory(ctx, d.store, thread)
	if err != nil {
		return nil, none
	}
	names := []string{"@\twhere the thread stands", "@-\tits parent", "latest\twhat redo can reach"}
	for i := range h.all {
		cp := &h.all[i]
		names = append(names, label(cp)+"\t"+clean(segno.Headline(cp.Prompt)))
		if pin := h.pins[cp.ID]; pin != "" {
			names = append(names, pin+"\t"+label(cp))
		}
	}
	if c.Name() == "restore" && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return names, none
}
