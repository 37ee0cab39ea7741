package fleetcmd

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/web/webcmd"
)

// withServer starts a PostgreSQL server for the scripts.
type withServer struct{ *testing.M }

// server is the PostgreSQL server of the scripts.
var server *serverrig.Server

func (m withServer) Run() int {
	flag.Parse()
	if testing.Short() {
		return m.M.Run()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var err error
	if server, err = serverrig.Postgres(ctx, "", serverrig.PostgresNoSync()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.M.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(withServer{m}, map[string]func(){
		"segno": func() {
			os.Exit(cli.Main(cli.Signalled(context.Background()), cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Getenv: os.Getenv, Environ: os.Environ, Getwd: os.Getwd, Executable: os.Executable,
				Stores: map[string]func(context.Context, string, string) (segno.Store, error){"postgres": OpenStore},
			}, []cli.Wing{webcmd.Wing(), Wing(nil)}, os.Args[1:]))
		},
	})
}

var databases atomic.Int64

// TestScripts runs testdata/scripts/*.txtar, each with an empty database, $DB, and a directory for a bucket, $BUCKET.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("servers are installed from the network")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/scripts", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await},
		Setup: func(e *testscript.Env) error {
			name := fmt.Sprintf("script_%d", databases.Add(1))
			c, err := pgx.Connect(context.Background(), server.URL)
			if err != nil {
				return err
			}
			defer c.Close(context.Background())
			if _, err := c.Exec(context.Background(), "CREATE DATABASE "+name); err != nil {
				return err
			}
			config := c.Config()
			bucket := filepath.Join(e.WorkDir, "bucket")
			e.Setenv("DB", fmt.Sprintf("postgres://%s@%s:%d/%s?pool_max_conns=8", config.User, config.Host, config.Port, name))
			e.Setenv("BUCKET", "file://"+bucket)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("NO_COLOR", "1")
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return os.Mkdir(bucket, 0o700)
		},
	})
}

// await waits until a file contains a text: "await FILE TEXT".
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE TEXT")
	}
	end := time.Now().Add(3 * time.Minute)
	for {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && strings.Contains(string(data), args[1]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s has no %q:\n%s", args[0], args[1], data)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
