// Package cli is the shell of the segno command: what all verbs share. Each wing of segno has its verbs in a separate package,
// one file per verb, with its flags, help and implementation; see [Wing]. Results go to standard output, notes and errors to standard error.
// Every verb that has a result has --json. docs/cli.md is the reference.
//
// A verb is a function that returns a cobra command. InWorkspace or InStore makes its RunE. They open the
// workspace of the directory, or only the store, and close it after the verb. A verb that may be the first one in a
// directory, such as save, calls OpenOrRegister instead. The verb computes a result, a struct with JSON tags, and calls
// Print with the result and a function that prints the same result as text. An error ends the verb: Main prints it with
// its hint and returns the exit code of its kind. See
// internal/history/historycmd/show.go for an example.
package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/internal/local"
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
	// Stores has the functions that open stores with dependencies outside this module, by the
	// scheme of the URL, as "postgres". bucket is the URL of the store's bucket, or "". Their errors must
	// not contain the password of a URL.
	Stores map[string]func(ctx context.Context, url, bucket string) (segno.Store, error)
	// Postgres connects to development databases, or is nil.
	Postgres database.Postgres
	// Version is the version of a release, or "".
	Version string
}

// Main runs the command and returns its exit code; see exit.go.
func Main(ctx context.Context, env Env, wings []Wing, args []string) int {
	a := New(env, wings)
	for _, w := range wings {
		if w.Quick != nil && w.Quick(ctx, a, args) {
			return ExitOK
		}
	}
	root := a.Root()
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	stop := func() {}
	root.PersistentPreRun = func(c *cobra.Command, _ []string) { stop = endWhenBlocked(ctx, c) }
	verb, err := root.ExecuteContextC(ctx)
	stop() // reporting an error may take longer than the watchdog allows
	err = withHelpHint(verb, err)
	a.JSON = a.JSON || err != nil && asksForJSON(args) // cobra may not have read the flags of a command line that it rejects
	a.report(err)
	return a.exitCode(err)
}

// App is one run of the command. cobra writes the flags into it before the verb runs.
type App struct {
	Env
	wings      []Wing
	Directory  string // -C
	StorePath  string // --store
	BucketURL  string // --bucket
	ThreadName string // --thread
	JSON       bool   // --json
	Yes        bool   // -y
	DryRun     bool   // --dry-run

	// State reads the state of the directory for 'segno' without arguments: the result, and the function that prints it as text.
	// It never fails. It is nil without the wing of history.
	State func(ctx context.Context) (any, func(*Printer))
	// ArchiveDiff compares two archives. It is nil without the wing of archives.
	ArchiveDiff func(ctx context.Context, args, paths []string, flags DiffFlags) error

	capture func(v any, text func(*Printer)) error // gets the result instead of standard output; nil outside Run

	verbose bool // --verbose
	pages   bool // long results go through a pager
	noPager bool // --no-pager

	Bar *progressBar // of the scan that the command makes, or nil
}

// New returns the command for one run.
func New(env Env, wings []Wing) *App { return &App{Env: env, wings: wings, pages: true} }

// Again returns the command for another run in the same process.
func (a *App) Again() *App { return &App{Env: a.Env, wings: a.wings} }

// Root returns the command with the verbs of all wings.
func (a *App) Root() *cobra.Command {
	c := &cobra.Command{
		Use: "segno", Version: a.BuildVersion(),
		Short: "checkpoints for AI agents", RunE: a.overview,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true, // withHelpHint suggests verbs
	}
	c.SetVersionTemplate(a.versionLine() + "\n")
	f := c.PersistentFlags()
	f.StringVarP(&a.Directory, "directory", "C", "", "run as if started in `DIR`")
	f.StringVar(&a.StorePath, "store", "", "keep everything in `PATH` (default $XDG_DATA_HOME/segno)")
	f.StringVar(&a.ThreadName, "thread", "", "work on this `THREAD` (default: the thread of the directory)")
	f.BoolVar(&a.JSON, "json", false, "print the result as JSON")
	f.BoolVar(&a.noPager, "no-pager", false, "do not show a long result in $PAGER")
	c.SetFlagErrorFunc(flagError)
	a.addVerbs(c)
	CompleteFlag(c, "thread", a.CompleteThreads)
	return c
}

// addVerbs adds the verbs of all wings, in groups by the user's purpose. docs/cli.md has the same groups.
func (a *App) addVerbs(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
	}
	for _, w := range a.wings {
		for _, v := range w.Verbs(a) {
			v.Command.GroupID = v.Group
			root.AddCommand(v.Command)
		}
	}
	root.AddCommand(a.version())
	root.InitDefaultCompletionCmd()
	a.setHelp(root)
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
	"enable": {"init", "install"}, "disable": {"uninstall"}, "check": {"fsck"},
	"pack": {"bundle"}, "unpack": {"import", "load", "extract"},
}

// WriteFlags adds the flags of verbs that write files.
func (a *App) WriteFlags(c *cobra.Command) {
	c.Flags().BoolVarP(&a.Yes, "yes", "y", false, "do it without asking")
	c.Flags().BoolVar(&a.DryRun, "dry-run", false, "show the planned changes and stop")
}

// MoveFlags adds the flags of verbs that move the thread.
func (a *App) MoveFlags(c *cobra.Command, ask *timeline.MoveRequest) {
	a.WriteFlags(c)
	c.Flags().BoolVar(&a.verbose, "verbose", false, "list every path")
	c.Flags().BoolVar(&ask.WhileRunning, "while-running", false, "also while a turn is open, or a program has an attached database open")
}

// BucketFlag adds the flag of verbs that open stores in PostgreSQL.
func (a *App) BucketFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.BucketURL, "bucket", "", "the `URL` of the bucket with the large objects of a PostgreSQL store: s3://BUCKET/PREFIX or file:///DIR")
}

// ForceFlag adds the flag of moves that can have conflicts.
func ForceFlag(c *cobra.Command, ask *timeline.MoveRequest) {
	c.Flags().BoolVar(&ask.Force, "force", false, "overwrite the conflicts that the move lists; the present content is saved first")
}

// OpenPlace returns the place of the store that the flags and the environment name. It opens nothing.
func (a *App) OpenPlace() (local.Place, error) {
	if _, ok := URLScheme(a.StorePath); ok {
		return local.Place{}, segno.Errorf(segno.KindInvalid, "open store", RedactURL(a.StorePath), "this command needs a store in a directory").
			WithHint("use --store PATH, or 'segno web' to look into any store")
	}
	place, err := local.FindPlace(a.Getenv, a.StorePath)
	if err != nil {
		return place, err
	}
	place.Postgres, place.Actor = a.Postgres, a.actor()
	if a.Place != nil {
		a.Place(&place)
	}
	return place, place.CheckOwner()
}

// actor returns the actor of the command's operations: the agent that runs the command in its shell, or the command line.
func (a *App) actor() string {
	for _, p := range agents.All() {
		if p.ShellEnv != "" && a.Getenv(p.ShellEnv) != "" {
			return p.Name
		}
	}
	return segno.ActorCommand
}

// PlaceAndDir returns the place of the store and the directory the command works in.
func (a *App) PlaceAndDir() (local.Place, string, error) {
	place, err := a.OpenPlace()
	if err != nil {
		return place, "", err
	}
	dir, err := a.WorkDir()
	return place, dir, err
}

// WorkDir returns the directory the command works in.
func (a *App) WorkDir() (string, error) {
	wd, err := a.Getwd()
	if err != nil {
		return "", segno.NewError(segno.KindIO, "find directory", "", err)
	}
	if a.Directory == "" {
		return wd, nil
	}
	dir := Absolute(wd, a.Directory)
	if printed, ok := UnquotePath(a.Directory); ok {
		if _, err := os.Lstat(dir); err != nil {
			dir = Absolute(wd, printed)
		}
	}
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return "", segno.NewError(segno.KindNotFound, "find directory", a.Directory, nil).WithHint("give -C a directory that exists")
	}
	return dir, nil
}
