package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// intro is the paragraph with which every help of the whole command begins. It fits 60 columns.
const intro = `segno makes every turn of an AI agent's run a checkpoint of
the conversation and the files together. You can undo, redo
and restore, and none of these removes a checkpoint.`

// checkpointNames explains the names of checkpoints.
const checkpointNames = `A checkpoint is named t42 (a turn), @ (the head of the
thread), @- (its parent), latest, by the name of a pin, or by
the first letters of its id.`

// firstVerbs are the verbs that a new user needs. The help without --all lists only these.
var firstVerbs = [...]string{"enable", "log", "undo", "redo", "restore", "web"}

// overview is 'segno' without arguments: the first verbs, and the state of the directory.
func (a *App) overview(c *cobra.Command, _ []string) error {
	var state any = struct{}{}
	text := func(*Printer) {}
	if a.State != nil {
		state, text = a.State(c.Context())
	}
	return a.Print(state, func(p *Printer) {
		writeFirstVerbs(p, c)
		text(p)
		p.Linef("\n'segno help VERB' explains a verb, and 'segno help --all'\nlists all of them.")
	})
}

func writeFirstVerbs(p *Printer, root *cobra.Command) {
	p.Linef("%s\n", intro)
	for _, name := range firstVerbs {
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			p.Linef("  %s  %s", p.Bold(Pad(name, len("restore"))), c.Short)
		}
	}
}

// setHelp sets the help of the whole command, and of 'segno help'. The help of a verb is that of cobra.
func (a *App) setHelp(root *cobra.Command) {
	ofVerb := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c != root {
			ofVerb(c, args)
			return
		}
		p := a.Printer(a.Stdout)
		writeFirstVerbs(p, root)
		p.Linef("\n%s\n\n'segno help VERB' explains a verb, 'segno help --all' lists all\nof them, and 'segno demo' shows it without an agent.", checkpointNames)
		writeFlags(p, root)
	})
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // cobra has just added it
	var all bool
	help.Use, help.Short, help.Long, help.Run = "help [VERB…]", "explain a verb, or list all of them with --all", "", nil
	help.Flags().BoolVar(&all, "all", false, "list all verbs")
	help.RunE = func(_ *cobra.Command, args []string) error {
		if all {
			return a.PrintLong(struct{}{}, func(p *Printer) { writeAllVerbs(p, root) })
		}
		c, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return unknownVerb(c, append(rest, args...)[0])
		}
		c.InitDefaultHelpFlag()
		return c.Help()
	}
}

// writeAllVerbs lists every verb, by the groups of the wings.
func writeAllVerbs(p *Printer, root *cobra.Command) {
	p.Linef("%s\n\n%s", intro, checkpointNames)
	for _, g := range append(root.Groups(), &cobra.Group{Title: "Others:"}) {
		lines := verbLines(p, root, func(c *cobra.Command) bool { return c.GroupID == g.ID })
		if len(lines) > 0 {
			p.Linef("\n%s", p.Bold(g.Title))
			p.Lines(lines)
		}
	}
	writeFlags(p, root)
}

// verbLines returns a line for each verb below parent that accept chooses, each followed by those of its own verbs.
func verbLines(p *Printer, parent *cobra.Command, accept func(*cobra.Command) bool) (lines []string) {
	const width = len("generations compare")
	for _, c := range parent.Commands() {
		if !accept(c) || c.Hidden {
			continue
		}
		lines = append(lines, Fit(fmt.Sprintf("  %s  %s", Pad(nameOf(c), width), c.Short), p.Width()))
		if c.GroupID == "" && parent == c.Root() {
			continue // the help of 'segno completion' lists the shells
		}
		lines = append(lines, verbLines(p, c, func(c *cobra.Command) bool { return c.IsAvailableCommand() })...)
	}
	return lines
}

func writeFlags(p *Printer, root *cobra.Command) {
	root.InitDefaultHelpFlag()
	p.Linef("\nEvery verb takes these flags:\n%s", strings.TrimRight(root.PersistentFlags().FlagUsagesWrapped(p.Width()), "\n"))
}
