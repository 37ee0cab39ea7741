package historycmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/idprefix"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) undo() *cobra.Command {
	return a.step(segno.VerbUndo, "[N | TURN | TURN… --only] [-- PATH…]", "undo the newest turns, files and conversation",
		`Undoes the N newest turns of the thread's line (default 1), newest first, or all turns
back to and including TURN: the changes of their tools and commands to the files, and the
conversation. With paths after --, it undoes only the changes of the turns to these paths,
and the conversation stays.

--only undoes the named turns alone and keeps all that came after them. Only files change:
the thread and the conversation stay, and the result is a new checkpoint. A file that newer
turns or you changed, too, is merged by lines, as below. If a newer turn made the same change
again, it is undone, too. --patch asks about each hunk, as 'git checkout -p' does, and undoes
the chosen ones; the conversation stays.

What you save, make or delete while the agent works is not undone. The plan lists the files apart
that changed while a command ran, by no tool that names them: you may have changed them. A file
that you changed before a command of the turn changed it is undone whole.

A file that you changed, too, during the turn or after it, is merged by lines. If both
changed the same lines, nothing tells the lines apart, or the file is binary, the path is a
conflict: undo lists it with the difference, leaves it alone and exits with code 4.
--force overwrites conflicts. Right after an undo of whole turns with conflicts, --force
overwrites those and undoes no further turn. After an undo of paths or turns alone, repeat
the same command with --force.

'segno redo' redoes the turns, and 'segno op undo' undoes the undo itself.`)
}

func (a *app) redo() *cobra.Command {
	return a.step(segno.VerbRedo, "[N | TURN]", "redo undone turns, oldest first",
		`Redoes the N oldest undone turns (default 1), or all up to and including TURN. Files that
were changed since are merged, or they are conflicts, as in 'segno undo'.`)
}

// step returns the command of undo or redo, which differ only in their texts and in the paths that
// undo accepts.
func (a *app) step(verb segno.Verb, args, summary, long string) *cobra.Command {
	ask := timeline.MoveRequest{Verb: verb}
	var only, patch bool
	c := &cobra.Command{
		Use: string(verb) + " " + args, Short: summary, Long: long,
		Example: "  segno " + string(verb) + "\n  segno " + string(verb) + " 3 -y\n  segno " + string(verb) + " t3",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: a.CompleteTurns(),
		RunE: func(c *cobra.Command, args []string) error {
			var paths []string
			if dash := c.ArgsLenAtDash(); dash >= 0 && verb == segno.VerbUndo {
				args, paths = args[:dash:dash], args[dash:]
			}
			ask := ask
			parse := parseTurns
			if only {
				parse = parseOnly
			}
			if err := parse(&ask, args); err != nil {
				return err
			}
			if patch {
				ask.Parts = map[string][]int{}
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, _ []string) error {
				return a.runStep(ctx, d, ask, paths)
			})(c, nil)
		},
	}
	a.MoveFlags(c, &ask)
	cli.ForceFlag(c, &ask)
	if verb == segno.VerbUndo {
		c.Example += "\n  segno undo t3 -- src/a.go\n  segno undo t3 --only"
		c.Flags().BoolVar(&only, "only", false, "undo the named turns alone; newer turns and the conversation stay")
		cli.PatchFlag(c, &patch)
	}
	return c
}

// parseTurns reads the turns of an undo or a redo from the arguments.
func parseTurns(ask *timeline.MoveRequest, args []string) error {
	ask.Turns = 1
	if len(args) == 0 {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(args[0], "t"))
	bad := err != nil || n < 1
	ask.Turns, ask.Name = n, args[0]
	if idprefix.IsTurnName(args[0]) {
		ask.Turns, ask.Turn = 0, n
	}
	switch {
	case bad:
		return cli.Usage(fmt.Errorf("%s takes a number of turns, 1 or more, or a turn: %q is neither", ask.Verb, args[0]))
	case len(args) > 1 && ask.Verb == segno.VerbUndo:
		return cli.UnexpectedArg("undo", args[1], "give paths after --: 'segno undo "+args[0]+" -- "+cli.ShellQuote(args[1])+"'")
	case len(args) > 1:
		return cli.Usage(fmt.Errorf("%s: unexpected argument %q", ask.Verb, args[1]))
	}
	return nil
}

// parseOnly reads the turns of an undo of these turns alone.
func parseOnly(ask *timeline.MoveRequest, args []string) error {
	if len(args) == 0 {
		return cli.Usage(errors.New("undo --only takes the turns to undo, such as 'segno undo t3 --only'"))
	}
	for _, arg := range args {
		n, err := strconv.Atoi(strings.TrimPrefix(arg, "t"))
		if !idprefix.IsTurnName(arg) || err != nil || n < 1 {
			return cli.Usage(fmt.Errorf("undo --only takes turns, such as t3: %q is not one", arg))
		}
		if !slices.Contains(ask.Only, n) {
			ask.Only = append(ask.Only, n)
		}
	}
	ask.Name = strings.Join(args, " ") + " --only"
	return nil
}

func (a *app) runStep(ctx context.Context, d *cli.Workspace, ask timeline.MoveRequest, paths []string) error {
	if len(paths) > 0 {
		_, c, err := a.CheckpointNamed(ctx, d, "@")
		if err != nil {
			return err
		}
		if ask.Paths, err = cli.ResolvePaths(ctx, d, c, paths); err != nil {
			return err
		}
	}
	return a.withThreads(ctx, d, ask, a.Move(ctx, d, ask))
}

// withThreads adds a hint to the error of an undo that found no turn: the other threads of the
// directory that have the turn. After the agent began a new session, the user often means a turn
// of the previous thread. An error with a name is about a turn that was found.
func (a *app) withThreads(ctx context.Context, d *cli.Workspace, ask timeline.MoveRequest, err error) error {
	var noTurn *segno.Error
	if !errors.As(err, &noTurn) || noTurn.Kind != segno.KindNotFound || noTurn.Op != "undo" || noTurn.Name != "" || len(ask.Paths) > 0 {
		return err
	}
	current, threadErr := a.ThreadID(ctx, d)
	turn := slices.Max(append([]int{ask.Turn}, ask.Only...))
	isOther := func(t segno.Thread, newest int) bool { return t.ID != current && newest >= max(1, turn) }
	list, first, listErr := a.ListForHint(ctx, d.Store, segno.ThreadQuery{Workspace: d.Rec.ID, TopLevel: true}, isOther)
	if threadErr != nil || listErr != nil || list == "" {
		return err
	}
	again := "segno undo "
	if turn > 0 {
		again += ask.Name + " "
	}
	hint := fmt.Sprintf("other threads here: %s; run '%s--thread %s'", list, again, first)
	return segno.NewError(segno.KindNotFound, "", "", err).WithHint(hint)
}
