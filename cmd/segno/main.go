// Command segno makes every turn of an AI agent's run a checkpoint.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/dalsegno/segno/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills at once
	os.Exit(cli.Main(ctx, cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable,
	}, os.Args[1:]))
}
