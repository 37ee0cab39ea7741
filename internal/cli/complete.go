package cli

import (
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// completer returns the words that the shell offers for an argument, each with a description
// after a tab.
type completer = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// completeFlag sets the completer of a flag that c has.
func completeFlag(c *cobra.Command, flag string, words completer) {
	if err := c.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic("segno: internal error: " + err.Error())
	}
}

// completeInWorkspace returns a completer that offers words of the directory's workspace for the
// first most arguments. After an error it offers nothing: a shell has no place for an error.
func (a *app) completeInWorkspace(most int, words func(c *cobra.Command, d *openWorkspace) []string) completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		d, err := a.open(c.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer d.Close()
		return words(c, d), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCheckpoints offers the names of the thread's checkpoints, and only the turns for undo
// and redo. For resume it also offers the threads of the workspace. The other arguments of
// restore are files.
func (a *app) completeCheckpoints(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if c.Name() == "restore" && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	most := 1
	if c.Name() == "diff" {
		most = 2
	}
	return a.completeInWorkspace(most, func(c *cobra.Command, d *openWorkspace) (names []string) {
		if h, err := a.history(c.Context(), d); err == nil {
			names = h.names(c.Name() == "undo" || c.Name() == "redo")
		}
		if c.Name() == "resume" {
			names = append(names, threadNames(c, d.store, segno.ThreadQuery{Workspace: d.rec.ID})...)
		}
		return names
	})(c, args, typed)
}

// names returns the words that name a checkpoint, or only the turns. A pin with characters that
// are escaped in text is left out.
func (h *history) names(onlyTurns bool) (names []string) {
	if !onlyTurns {
		names = []string{"@\tthe head of the thread", "@-\tits parent", "latest\tthe newest checkpoint that redo can reach"}
	}
	for i := range h.all {
		cp := &h.all[i]
		if onlyTurns && cp.Kind != segno.CheckpointTurn {
			continue
		}
		names = append(names, label(cp)+"\t"+inline(timeline.Title(cp.Prompt)))
		for _, pin := range h.pins[cp.ID] {
			if !onlyTurns && inline(pin) == pin {
				names = append(names, pin+"\t"+label(cp))
			}
		}
	}
	return names
}

// completeThreads offers the ids of the store's threads.
func (a *app) completeThreads(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	store, err := a.openStore(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer store.Close()
	return threadNames(c, store, segno.ThreadQuery{}), cobra.ShellCompDirectiveNoFileComp
}

func threadNames(c *cobra.Command, store segno.Store, q segno.ThreadQuery) (names []string) {
	for t, err := range store.Threads(c.Context(), q) {
		if err != nil {
			break
		}
		names = append(names, short(t.ID)+"\t"+inline(t.Title))
	}
	return names
}

// operationNames returns the ids of the directory's operations.
func operationNames(c *cobra.Command, d *openWorkspace) (names []string) {
	for op, err := range d.store.Operations(c.Context(), d.rec.ID) {
		if err != nil {
			break
		}
		names = append(names, short(op.ID)+"\t"+string(op.Verb)+" "+clean(op.Args))
	}
	return names
}
