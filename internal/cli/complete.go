package cli

import (
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
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

// completeCheckpoints returns a completer that offers the names of the thread's checkpoints for the
// first most arguments.
func (a *app) completeCheckpoints(most int) completer {
	return a.completeInWorkspace(most, func(c *cobra.Command, d *openWorkspace) []string {
		return a.checkpointNames(c, d, false)
	})
}

// completeTurns returns a completer that offers the names of the thread's turns for the first
// argument.
func (a *app) completeTurns() completer {
	return a.completeInWorkspace(1, func(c *cobra.Command, d *openWorkspace) []string {
		return a.checkpointNames(c, d, true)
	})
}

// completeCheckpointThenFiles returns a completer that offers the names of checkpoints for the first
// argument and files for the others.
func (a *app) completeCheckpointThenFiles() completer {
	first := a.completeCheckpoints(1)
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return first(c, args, typed)
	}
}

// completeCheckpointsAndThreads returns a completer that offers the names of the thread's
// checkpoints and the threads of the workspace for the first argument.
func (a *app) completeCheckpointsAndThreads() completer {
	return a.completeInWorkspace(1, func(c *cobra.Command, d *openWorkspace) []string {
		return append(a.checkpointNames(c, d, false), threadNames(c, d.store, segno.ThreadQuery{Workspace: d.rec.ID})...)
	})
}

// checkpointNames returns the names of the thread's checkpoints, or only the turns. If there is an
// error, it returns no names.
func (a *app) checkpointNames(c *cobra.Command, d *openWorkspace, onlyTurns bool) []string {
	h, err := a.history(c.Context(), d)
	if err != nil {
		return nil
	}
	return namesOf(h, onlyTurns)
}

// namesOf returns the words that name a checkpoint, or only the turns. It leaves out a pin with
// characters that the text output escapes.
func namesOf(h *history.History, onlyTurns bool) (names []string) {
	if !onlyTurns {
		names = []string{"@\tthe head of the thread", "@-\tits parent", "latest\tthe newest checkpoint that redo can reach"}
	}
	for i := range h.All {
		cp := &h.All[i]
		if onlyTurns && cp.Kind != segno.CheckpointTurn {
			continue
		}
		names = append(names, label(cp)+"\t"+inline(timeline.Title(cp.Prompt)))
		for _, pin := range h.Pins[cp.ID] {
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
