package hookcmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
)

func (a *app) hook() *cobra.Command {
	return &cobra.Command{
		Use: "hook AGENT", Short: "record one event of an agent, read from standard input",
		Long: `The command that 'segno enable' adds to an agent's hooks. It always exits with 0. Failures
are in the store's hook.log, which 'segno doctor' shows.`,
		Hidden: true, Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				a.runHook(c.Context(), args[0], false)
			}
			return nil // an agent could not act on an error
		},
	}
}

// runHook handles one event of an agent. It ignores an unknown agent. It returns no error, because the package hook
// writes failures to the log of the store.
func (a *app) runHook(ctx context.Context, agent string, noSteps bool) {
	if e, err := a.hookEvent(ctx); err == nil { // else there is no log to write the error to
		e.NoSteps = noSteps
		hook.Run(ctx, agent, e)
	}
}

func (a *app) hookEvent(ctx context.Context) (hook.Event, error) {
	place, err := local.FindPlace(a.Getenv, a.StorePath)
	place.Postgres = a.Postgres
	return hook.Event{Place: place, Stdin: a.Stdin, Stdout: a.Stdout,
		Getenv: a.Getenv, PID: os.Getpid(), Exit: func() { os.Exit(cli.ExitOK) },
		Baseline: func(dir string) error { return a.startBaseline(context.WithoutCancel(ctx), dir) }}, err
}

// quickHook runs a hook that enable registered. It does not build the whole command, because the
// agent waits for the hook at every tool call.
func (a *app) quickHook(ctx context.Context, args []string) bool {
	store := ""
	if len(args) > 3 && args[0] == "--store" {
		store, args = args[1], args[2:]
	}
	if len(args) < 2 || args[0] != "hook" {
		return false
	}
	noSteps := len(args) == 3 && args[2] == event.NoStepsArg
	switch {
	case (len(args) == 2 || noSteps) && slices.Contains(agents.WithHooks(), args[1]):
		a.StorePath = store
		a.runHook(ctx, args[1], noSteps)
	case args[1] == hook.NotifyArg:
		a.StorePath = store
		e, _ := a.hookEvent(ctx) // the user's command also runs without a store
		hook.Notify(ctx, args[2:], e)
	default:
		return false
	}
	return true
}

// baseline takes the first snapshot of a directory. The event SessionStart runs it in the
// background.
func (a *app) baseline() *cobra.Command {
	return &cobra.Command{
		Use: "baseline", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := a.OpenOrRegister(c.Context())
			if err != nil {
				return err
			}
			defer d.Close()
			_, err = d.Timeline.Snapshot(c.Context())
			return err
		},
	}
}

// startBaseline runs baseline in a separate process, which outlives the hook
// and is not in the agent's process group.
func (a *app) startBaseline(ctx context.Context, dir string) error {
	self, err := a.Self()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self[0], append(self[1:], "-C", dir, "baseline")...)
	cmd.Env = a.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := cmd.Process.Release(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
