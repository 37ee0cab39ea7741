package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/internal/proc"
)

// Signalled returns a context that is cancelled by ctrl+c, by SIGTERM, or when the terminal
// closes. A second SIGINT or SIGTERM kills the process at once. A second SIGHUP does not:
// the terminal and the shell both send one, and the command must still save its work. A
// command that ignores SIGHUP, as under nohup, outlives its terminal.
func Signalled(ctx context.Context) context.Context {
	if !signal.Ignored(syscall.SIGHUP) {
		ctx, _ = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// lingering lists the verbs that need time after a signal: they save the work done so far, end the
// processes that they started, or remove what they have written.
var lingering = [...]string{"acp", "agent", "chat", "hook", "keep", "pack", "pause", "resume", "run", "serve", "unpack", "wake", "web", "worker"}

// endWhenBlocked ends the process if a verb still runs most of a second after a signal,
// because the verb is then blocked in a system call. The state is the same as after
// kill -9: a move is done, is not done, or is completed by the next command. stop ends
// the watch.
func endWhenBlocked(ctx context.Context, c *cobra.Command) (stop func()) {
	if slices.Contains(lingering[:], c.Name()) {
		return func() {}
	}
	return proc.Watch(ctx, 0, func(proc.Reason) { os.Exit(exitCancelled) }).Stop
}

// IgnoreBrokenPipe makes a write to a closed pipe return EPIPE. Otherwise SIGPIPE would kill a command that
// does more than print in the middle of its work.
func IgnoreBrokenPipe() (stop func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}
