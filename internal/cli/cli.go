// Package cli is the segno command: one file per verb, with its flags, help and
// implementation. Results go to standard output, notes and errors to standard error.
// Every verb that has a result has --json. docs/cli.md is the reference.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/local"
)

// Env is everything the command takes from its process.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	Getwd          func() (string, error)
	Executable     func() (string, error)
	// Place changes where things are. Fault tests give the store another file system
	// with it; nil changes nothing.
	Place func(*local.Place)
	// Models makes the models that need more than this module, by provider:
	// "anthropic". The offline one is always there.
	Models map[string]func(name string, getenv func(string) string) (agent.Model, error)
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
	stop()
	err = withHelpHint(verb, err)
	a.report(err)
	return exitCode(err)
}

// app is one run of the command.
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
		Use: "segno", Version: release,
		Short: "checkpoints for AI agents",
		Long: `segno makes every turn of an AI agent's run a checkpoint of the conversation and
the files together, which you can undo, redo, restore and fork.

Start with 'segno demo'. To record Claude Code, run 'segno enable claude' and work as
usual. To record another agent, put 'segno acp --' in front of its command in your
editor. A checkpoint is named t42 (a turn), @ (the head of the thread), @- (the head's
parent), latest, by the name of a pin, or by the first letters of its id.`,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true, // helped has them
	}
	c.SetVersionTemplate(versionLine() + "\n")
	f := c.PersistentFlags()
	f.StringVarP(&a.dir, "directory", "C", "", "run as if started in `DIR`")
	f.StringVar(&a.store, "store", "", "keep everything in `PATH` (default $XDG_DATA_HOME/segno)")
	f.StringVar(&a.thread, "thread", "", "work on this `THREAD` (default: the thread of the directory)")
	f.BoolVar(&a.json, "json", false, "print the result as JSON")
	f.BoolVar(&a.noPager, "no-pager", false, "do not show a long result in $PAGER")
	c.SetFlagErrorFunc(flagError)
	a.addVerbs(c)
	for _, sub := range c.Commands() {
		positional(sub)
	}
	if err := c.RegisterFlagCompletionFunc("thread", a.completeThreads); err != nil {
		panic("segno: internal error: " + err.Error()) // the flag is above
	}
	return c
}

// writeFlags adds the flags of verbs that write files.
func (a *app) writeFlags(c *cobra.Command) {
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do it without asking")
	c.Flags().BoolVar(&a.dryRun, "dry-run", false, "show the planned changes and stop")
}

// moveFlags adds the flags of verbs that move the thread.
func (a *app) moveFlags(c *cobra.Command) {
	a.writeFlags(c)
	c.Flags().BoolVar(&a.verbose, "verbose", false, "list every path")
}

func (a *app) place() (local.Place, error) {
	place, err := local.FindPlace(a.Getenv, a.store)
	if err != nil {
		return place, err
	}
	if a.Place != nil {
		a.Place(&place)
	}
	return place, place.CheckOwner()
}

// workDir is the directory the command works in.
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

// print writes the result: v with --json, else what text writes.
func (a *app) print(v any, text func(w io.Writer) error) error {
	a.bar.erase()
	if !a.json {
		return wrapWriteError(text(a.Stdout))
	}
	enc := encoder(a.Stdout)
	enc.SetIndent("", "  ")
	return wrapWriteError(enc.Encode(v))
}

// wrapWriteError says of a write that failed that the disk or the system did.
func wrapWriteError(err error) error {
	var write *fs.PathError
	if segno.KindOf(err) == segno.KindInternal && errors.As(err, &write) && write.Op == "write" {
		return segno.NewError(segno.KindIO, "write result", "", err)
	}
	return err
}

// notef tells the user something that is not the result.
func (a *app) notef(format string, args ...any) {
	a.bar.erase()
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

// report prints an error: one line, and a hint.
func (a *app) report(err error) {
	a.bar.erase()
	if err == nil || err == errSilent {
		return
	}
	text := clean(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", " "))
	hint := clean(segno.HintOf(err))
	if a.json {
		said := map[string]any{"error": text, "kind": segno.KindOf(err), "hint": hint, "code": exitCode(err)}
		if waits := (*approvalError)(nil); errors.As(err, &waits) {
			said["waiting"] = waits.ids
		}
		_ = encoder(a.Stderr).Encode(said)
		return
	}
	fmt.Fprintf(a.Stderr, "segno: %s\n", text)
	if hint != "" {
		fmt.Fprintf(a.Stderr, "hint: %s\n", hint)
	}
}

// terminal reports whether f is one.
func terminal(f any) bool {
	file, ok := fileOf(f)
	return ok && term.IsTerminal(int(file.Fd()))
}

// fileOf is the file that a stream is, or that a pager shows it on.
func fileOf(f any) (*os.File, bool) {
	if p, ok := f.(*pager); ok {
		return p.out, true
	}
	file, ok := f.(*os.File)
	return file, ok
}
