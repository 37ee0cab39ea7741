// Command segno makes every turn of an AI agent's run a checkpoint.
package main

import (
	"context"
	"os"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.Signalled(context.Background()), cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable,
		Models: map[string]func(string, func(string) string) (agent.Model, error){"anthropic": newAnthropic, "openai": newOpenAI},
	}, os.Args[1:]))
}
