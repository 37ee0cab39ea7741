package cli

import (
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/timeline"
)

// Completer returns the words that the shell offers for an argument, each with a description
// after a tab.
type Completer = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// CompleteFlag sets the completer of a flag that c has.
func CompleteFlag(c *cobra.Command, flag string, words Completer) {
	if err := c.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic("segno: internal error: " + err.Error())
	}
}

// CompleteInWorkspace returns a completer that offers words of the directory's workspace for the
// first most arguments. After an error it offers nothing: a shell has no place for an error.
func (a *App) CompleteInWorkspace(most int, words func(c *cobra.Command, d *Workspace) []string) Completer {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		d, err := a.Open(c.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer d.Close()
		return words(c, d), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteCheckpoints returns a completer that offers the names of the thread's checkpoints for the
// first most arguments.
func (a *App) CompleteCheckpoints(most int) Completer {
	return a.CompleteInWorkspace(most, func(c *cobra.Command, d *Workspace) []string {
		return a.checkpointNames(c, d, false)
	})
}

// CompleteTurns returns a completer that offers the names of the thread's turns for the first
// argument.
func (a *App) CompleteTurns() Completer {
	return a.CompleteInWorkspace(1, func(c *cobra.Command, d *Workspace) []string {
		return a.checkpointNames(c, d, true)
	})
}

// CompleteCheckpointThenFiles returns a completer that offers the names of checkpoints for the first
// argument and files for the others.
func (a *App) CompleteCheckpointThenFiles() Completer {
	first := a.CompleteCheckpoints(1)
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return first(c, args, typed)
	}
}

// CompleteCheckpointsAndThreads returns a completer that offers the names of the thread's
// checkpoints and the threads of the workspace for the first argument.
func (a *App) CompleteCheckpointsAndThreads() Completer {
	return a.CompleteInWorkspace(1, func(c *cobra.Command, d *Workspace) []string {
		return append(a.checkpointNames(c, d, false), threadNames(c, d.Store, segno.ThreadQuery{Workspace: d.Rec.ID})...)
	})
}

// checkpointNames returns the names of the thread's checkpoints, or only the turns. If there is an
// error, it returns no names.
func (a *App) checkpointNames(c *cobra.Command, d *Workspace, onlyTurns bool) []string {
	h, err := a.History(c.Context(), d)
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
		names = append(names, Label(cp)+"\t"+Inline(timeline.Title(cp.Prompt)))
		for _, pin := range h.Pins[cp.ID] {
			if !onlyTurns && Inline(pin) == pin {
				names = append(names, pin+"\t"+Label(cp))
			}
		}
	}
	return names
}

// CompleteThreads offers the ids of the store's threads.
func (a *App) CompleteThreads(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	store, err := a.OpenStore(c.Context())
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
		names = append(names, Short(t.ID)+"\t"+Inline(t.Title))
	}
	return names
}

// OperationNames returns the ids of the directory's operations.
func OperationNames(c *cobra.Command, d *Workspace) (names []string) {
	for op, err := range d.Store.Operations(c.Context(), d.Rec.ID) {
		if err != nil {
			break
		}
		names = append(names, Short(op.ID)+"\t"+string(op.Verb)+" "+Clean(op.Args))
	}
	return names
}

// CompleteArchives offers the .ckpt files of the directory for the first most arguments.
func CompleteArchives(most int) Completer {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return []string{"ckpt"}, cobra.ShellCompDirectiveFilterFileExt
	}
}
