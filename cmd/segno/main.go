// Command segno makes every turn of an AI agent's run a checkpoint.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills at once
	os.Exit(cli.Main(ctx, cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable,
		Models: map[string]func(string, func(string) string) (agent.Model, error){"anthropic": newAnthropic, "openai": newOpenAI},
	}, os.Args[1:]))
}
