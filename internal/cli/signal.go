package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/internal/event"
)

// Signalled is a context that ends when somebody wants the command to: with ctrl+c,
// with a request to terminate, or by closing the terminal. A second of the first two
// kills at once. A terminal that closes tells it twice, itself and through the shell,
// and what was done is still to be saved then. A command that was started to outlive
// its terminal does.
func Signalled(ctx context.Context) context.Context {
	if !signal.Ignored(syscall.SIGHUP) {
		ctx, _ = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// lingering lists the verbs that end in their own time after a signal: they save the work
// done so far, and end the processes that they started.
var lingering = [...]string{"acp", "agent", "chat", "demo-agent", "hook", "resume"}

// endWhenBlocked ends the process if a verb goes on for most of a second after a signal:
// it is blocked in a system call. What it was about to do is as after kill -9: done,
// not done, or completed by the next command. stop ends the watch.
func endWhenBlocked(ctx context.Context, c *cobra.Command) (stop func()) {
	if slices.Contains(lingering[:], c.Name()) {
		return func() {}
	}
	return event.Watch(ctx, 0, func(event.Reason) { os.Exit(exitCancelled) }).Stop
}

// outlivesReader lets a command that does more than print hear of a reader that went
// from its write, instead of being killed in the middle of what it does.
func outlivesReader() (stop func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}
