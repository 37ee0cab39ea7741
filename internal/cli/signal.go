package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
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

// outlivesReader lets a command that does more than print hear of a reader that went
// from its write, instead of being killed in the middle of what it does.
func outlivesReader() (stop func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}
