package proxy_test

import (
	"context"
	"os"
	"testing"

	"github.com/dalsegno/segno/internal/acp/acptest"
	"github.com/dalsegno/segno/internal/cli"
)

// segnoArg makes the test binary the segno command.
const segnoArg = "segno"

func TestMain(m *testing.M) {
	ctx := context.Background()
	if code, ran := acptest.Main(ctx, os.Args[1:], acptest.Standard()); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == segnoArg {
		os.Exit(cli.Main(ctx, cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Getenv: os.Getenv, Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable}, os.Args[2:]))
	}
	os.Exit(m.Run())
}
