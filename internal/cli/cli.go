// Package cli is the segno command: one file per verb, with its flags, help and
// implementation. Results go to standard output, notes and errors to standard error.
// Every verb that has a result has --json. docs/cli.md is the reference.
//
// A verb is a method of app that returns a cobra command. inWorkspace or inStore makes its RunE. They open the
// workspace of the directory, or only the store, and close it after the verb. A verb that may be the first one in a
// directory, such as save, calls openOrRegister instead. The verb computes a result, a struct with JSON tags, and calls
// print with the result and a function that prints the same result as text. An error ends the verb: Main prints it with
// its hint and returns the exit code of its kind. See show.go for an example.
package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/worlds/database"
	"github.com/dalsegno/segno/timeline"
)

// Env is everything the command takes from its process.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	Getwd          func() (string, error)
	Executable     func() (string, error)
	// Place changes the paths and options of the store, if it is not nil. Fault tests use it to
	// replace the store's file system.
	Place func(*local.Place)
	// Models has the constructors of models that need dependencies outside this module, by
	// provider, as "anthropic". The offline model is always available.
	Models map[string]func(name string, getenv func(string) string) (agent.Model, error)
	// Stores has the functions that open stores with dependencies outside this module, by the
	// scheme of the URL, as "postgres". Their errors must not contain the password of the URL.
	Stores map[string]func(ctx context.Context, url string) (segno.Store, error)
	// Postgres connects to development databases, or is nil.
	Postgres database.Postgres
	// Version is the version of a release, or "".
	Version string
}

// Main runs the command and returns its exit code; see exit.go.
func Main(ctx context.Context, env Env, args []string) int {
	a := &app{Env: env, pages: true}
	if a.quickHook(ctx, args) {
		return exitOK
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	stop := func() {}
	root.PersistentPreRun = func(c *cobra.Command, _ []string) { stop = endWhenBlocked(ctx, c) }
	verb, err := root.ExecuteContextC(ctx)
	stop() // reporting an error may take longer than the watchdog allows
	err = withHelpHint(verb, err)
	a.report(err)
	return exitCode(err)
}

// app is one run of the command. cobra writes the flags into it before the verb runs.
type app struct {
	Env
	dir    string // -C
	store  string // --store
	thread string // --thread
	json   bool   // --json
	yes    bool   // -y
	dryRun bool   // --dry-run

	verbose bool // --verbose
	pages   bool // long results go through a pager
	noPager bool // --no-pager

	bar *progressBar // of the scan that the command makes, or nil
}

func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use: "segno", Version: a.buildVersion(),
		Short: "checkpoints for AI agents",
		Long: `segno makes every turn of an AI agent's run a checkpoint of the conversation and
the files together, which you can undo, redo, restore and fork.

Start with 'segno demo'. To record Claude Code, run 'segno enable claude' and work as
usual. To record another agent, put 'segno acp --' in front of its command in your
editor. A checkpoint is named t42 (a turn), @ (the head of the thread), @- (the head's
parent), latest, by the name of a pin, or by the first letters of its id.`,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true, // withHelpHint suggests verbs
	}
	c.SetVersionTemplate(a.versionLine() + "\n")
	f := c.PersistentFlags()
	f.StringVarP(&a.dir, "directory", "C", "", "run as if started in `DIR`")
	f.StringVar(&a.store, "store", "", "keep everything in `PATH` (default $XDG_DATA_HOME/segno)")
	f.StringVar(&a.thread, "thread", "", "work on this `THREAD` (default: the thread of the directory)")
	f.BoolVar(&a.json, "json", false, "print the result as JSON")
	f.BoolVar(&a.noPager, "no-pager", false, "do not show a long result in $PAGER")
	c.SetFlagErrorFunc(flagError)
	a.addVerbs(c)
	completeFlag(c, "thread", a.completeThreads)
	return c
}

// addVerbs groups the verbs by the user's purpose. The help and docs/cli.md list the same groups.
func (a *app) addVerbs(root *cobra.Command) {
	for _, g := range []struct {
		id, title string
		verbs     []*cobra.Command
	}{
		{"start", "Set up:", []*cobra.Command{a.demo(), a.enable(), a.disable(), a.acp(), a.doctor()}},
		{"see", "See what happened:", []*cobra.Command{a.status(), a.log(), a.show(), a.diff(), a.threads(), a.inbox(), a.web(), a.serve()}},
		{"move", "Move back and forward:", []*cobra.Command{a.undo(), a.redo(), a.restore(), a.op()}},
		{"keep", "Save a checkpoint and continue from it:", []*cobra.Command{a.save(), a.pin(), a.unpin(), a.fork(), a.resume()}},
		{"sessions", "Look after the sessions of agents:", []*cobra.Command{a.sessions(), a.keep(), a.moveSession(), a.heal()}},
		{"archive", "Take a checkpoint elsewhere:", []*cobra.Command{a.share(), a.export(), a.pack(), a.unpack(), a.inspect(), a.verify()}},
		{"talk", "Talk with segno's own agent:", []*cobra.Command{a.chat(), a.agent()}},
		{"world", "Let agents live in a world:", []*cobra.Command{a.world(), a.generations(), a.pause(), a.wake()}},
		{"store", "Maintain the store:", []*cobra.Command{a.check(), a.gc(), a.delete(), a.storeVerb()}},
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
			c.Short = "print the completion script of a shell"
			c.Args = cobra.NoArgs
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
		c.SuggestFor = otherNames[c.Name()]
		positional(c)
	}
}

// otherNames maps a verb to its names in similar tools.
var otherNames = map[string][]string{
	"log": {"history", "list", "ls"}, "restore": {"checkout", "rewind", "rollback", "revert", "goto"},
	"save": {"checkpoint", "snapshot", "commit"}, "fork": {"branch"}, "pin": {"tag"}, "resume": {"continue"},
	"enable": {"init", "install"}, "disable": {"uninstall"}, "move": {"mv", "relocate"}, "check": {"fsck"},
	"pack": {"bundle", "archive"}, "unpack": {"import", "load", "extract"},
}

// writeFlags adds the flags of verbs that write files.
func (a *app) writeFlags(c *cobra.Command) {
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do it without asking")
	c.Flags().BoolVar(&a.dryRun, "dry-run", false, "show the planned changes and stop")
}

// moveFlags adds the flags of verbs that move the thread.
func (a *app) moveFlags(c *cobra.Command, ask *timeline.MoveRequest) {
	a.writeFlags(c)
	c.Flags().BoolVar(&a.verbose, "verbose", false, "list every path")
	c.Flags().BoolVar(&ask.WhileRunning, "while-running", false, "also while a turn is open, or a program has an attached database open")
}

// forceFlag adds the flag of moves that can have conflicts.
func forceFlag(c *cobra.Command, ask *timeline.MoveRequest) {
	c.Flags().BoolVar(&ask.Force, "force", false, "overwrite the conflicts that the move lists; the present content is saved first")
}

func (a *app) place() (local.Place, error) {
	if _, ok := urlScheme(a.store); ok {
		return local.Place{}, segno.Errorf(segno.KindInvalid, "open store", redactURL(a.store), "this command needs a store in a directory").
			WithHint("use --store PATH, or 'segno web' to look into any store")
	}
	place, err := local.FindPlace(a.Getenv, a.store)
	if err != nil {
		return place, err
	}
	place.Postgres = a.Postgres
	if a.Place != nil {
		a.Place(&place)
	}
	return place, place.CheckOwner()
}

// placeAndDir returns the place of the store and the directory the command works in.
func (a *app) placeAndDir() (local.Place, string, error) {
	place, err := a.place()
	if err != nil {
		return place, "", err
	}
	dir, err := a.workDir()
	return place, dir, err
}

// workDir returns the directory the command works in.
func (a *app) workDir() (string, error) {
	wd, err := a.Getwd()
	if err != nil {
		return "", segno.NewError(segno.KindIO, "find directory", "", err)
	}
	if a.dir == "" {
		return wd, nil
	}
	dir := absolute(wd, a.dir)
	if printed, ok := unquotePath(a.dir); ok {
		if _, err := os.Lstat(dir); err != nil {
			dir = absolute(wd, printed)
		}
	}
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return "", segno.NewError(segno.KindNotFound, "find directory", a.dir, nil).WithHint("give -C a directory that exists")
	}
	return dir, nil
}
