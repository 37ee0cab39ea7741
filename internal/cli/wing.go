package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// Wing is one product on segno's core. The command has the verbs of the wings that its main lists.
type Wing struct {
	// Verbs returns the verbs for one run of the command.
	Verbs func(*App) []Verb
	// Quick runs command lines that must be fast, without the other verbs. It reports whether it ran this one. It may be nil.
	Quick func(ctx context.Context, a *App, args []string) bool
	// Report returns the exit code of an error of the wing for which no kind has one, and the fields that --json adds to the
	// error. The code is 0 for every other error. Report may be nil.
	Report func(err error) (code int, fields map[string]any)
}

// Verb is a verb in a group of the help. A hidden verb has no group.
type Verb struct {
	Group   string
	Command *cobra.Command
}

// Group returns the verbs of a group.
func Group(id string, commands ...*cobra.Command) (verbs []Verb) {
	for _, c := range commands {
		verbs = append(verbs, Verb{id, c})
	}
	return verbs
}

// Former returns the hidden verb with the earlier spelling of a command. It prints the present spelling, except with --json.
// The next release removes it.
func (a *App) Former(c *cobra.Command, now string) *cobra.Command {
	c.Hidden = true
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !a.JSON {
			a.Notef("'%s' is now '%s'; the next release removes the old spelling", c.CommandPath(), now)
		}
		return run(c, args)
	}
	return c
}

// Noun returns a command that only groups the verbs about one thing. Alone it prints its help.
func Noun(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.FParseErrWhitelist.UnknownFlags = true // a mistyped verb is the error, and not the flag behind it
	c.AddCommand(verbs...)
	return c
}

// groups has the groups of the help by the user's purpose, in their order. docs/cli.md has the same groups.
var groups = [...]struct{ id, title string }{
	{"start", "Set up:"},
	{"see", "See what happened:"},
	{"move", "Move back and forward:"},
	{"keep", "Save a checkpoint and continue from it:"},
	{"sessions", "Look after the sessions of agents:"},
	{"archive", "Take a checkpoint elsewhere:"},
	{"page", "Show it in a browser, or to others:"},
	{"talk", "Talk with segno's own agent:"},
	{"fleet", "Run threads on many machines:"},
	{"world", "Let agents live in a world:"},
	{"store", "Maintain the store:"},
}
