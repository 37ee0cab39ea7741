package cli

import (
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// completeCheckpoints offers the names of the thread's checkpoints to the shell.
func (a *app) completeCheckpoints(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if most := map[string]int{"diff": 2, "restore": 1}[c.Name()]; len(args) >= max(most, 1) {
		if c.Name() == "restore" {
			return nil, cobra.ShellCompDirectiveDefault // paths
		}
		return nil, none
	}
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
	if c.Name() == "undo" || c.Name() == "redo" {
		return turnNames(h), none
	}
	names := []string{"@\tthe head of the thread", "@-\tits parent", "latest\twhat redo can reach"}
	for i := range h.all {
		cp := &h.all[i]
		names = append(names, label(cp)+"\t"+inline(timeline.Title(cp.Prompt)))
		for _, pin := range h.pins[cp.ID] {
			if inline(pin) == pin { // else the shell would insert another name
				names = append(names, pin+"\t"+label(cp))
			}
		}
	}
	return names, none
}

// turnNames are the turns of a thread for the shell.
func turnNames(h *history) (names []string) {
	for i := range h.all {
		if cp := &h.all[i]; cp.Kind == segno.CheckpointTurn {
			names = append(names, label(cp)+"\t"+inline(timeline.Title(cp.Prompt)))
		}
	}
	return names
}

// completeThreads offers the ids of the store's threads.
func (a *app) completeThreads(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	store, err := a.openStore(c.Context())
	if err != nil {
		return nil, none
	}
	defer store.Close()
	var names []string
	for t, err := range store.Threads(c.Context(), segno.ThreadQuery{}) {
		if err != nil {
			break
		}
		names = append(names, short(segno.CommitID(t.ID))+"\t"+inline(t.Title))
	}
	return names, none
}

// completeOperations offers the ids of the directory's operations.
func (a *app) completeOperations(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	d, err := a.open(c.Context())
	if err != nil || len(args) > 0 {
		return nil, none
	}
	defer d.Close()
	var names []string
	for op, err := range d.store.Operations(c.Context(), d.rec.ID) {
		if err != nil {
			break
		}
		names = append(names, short(segno.CommitID(op.ID))+"\t"+string(op.Verb)+" "+clean(op.Args))
	}
	return names, none
}
