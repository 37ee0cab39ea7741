// Command segno makes every turn of an AI agent's run a checkpoint.
package main

import (
	"context"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
)

// version is set by the linker in a release. A nested module does not get the tag of a release from the
// build info.
var version string

func main() {
	os.Exit(cli.Main(cli.Signalled(context.Background()), cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable,
		Stores: map[string]func(context.Context, string, string) (segno.Store, error){
			"postgres": openPostgres, "postgresql": openPostgres, "redis": openRedis, "rediss": openRedis},
		Postgres: postgresDriver{}, Version: version,
	}, wings(), os.Args[1:]))
}
