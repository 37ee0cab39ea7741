package cli

import "github.com/spf13/cobra"

// addVerbs adds the verbs to the root, in groups by what a user wants to do: the
// help and docs/cli.md list them so.
func (a *app) addVerbs(root *cobra.Command) {
	for _, g := range []struct {
		id, title string
		verbs     []*cobra.Command
	}{
		{"start", "Set up:", []*cobra.Command{a.demo(), a.enable(), a.disable(), a.acp(), a.doctor()}},
		{"see", "See what happened:", []*cobra.Command{a.status(), a.log(), a.show(), a.diff(), a.threads(), a.inbox()}},
		{"move", "Go back, and forward again:", []*cobra.Command{a.undo(), a.redo(), a.restore(), a.op()}},
		{"keep", "Keep a moment, and go on from it:", []*cobra.Command{a.save(), a.pin(), a.unpin(), a.fork(), a.resume()}},
		{"talk", "Talk with segno's own agent:", []*cobra.Command{a.chat(), a.agent()}},
		{"store", "Look after the store:", []*cobra.Command{a.check(), a.gc(), a.delete()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, verb := range g.verbs {
			verb.GroupID = g.id
		}
		root.AddCommand(g.verbs...)
	}
	root.AddCommand(a.version(), a.demoAgent(), a.hook(), a.baseline())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = cobra.NoArgs
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
		c.SuggestFor = otherNames[c.Name()]
	}
}

// otherNames are what users of similar tools call a verb.
var otherNames = map[string][]string{
	"log": {"history", "list", "ls"}, "restore": {"checkout", "rewind", "rollback", "revert", "goto"},
	"save": {"checkpoint", "snapshot", "commit"}, "fork": {"branch"}, "pin": {"tag"}, "resume": {"continue"},
	"enable": {"init", "install"}, "disable": {"uninstall"}, "threads": {"sessions"}, "check": {"fsck", "verify"},
}
