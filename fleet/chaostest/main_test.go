// Package chaostest tests a fleet whose parts fail: its workers are killed and stopped, connections and the server end, answers are
// lost, clocks differ and the bucket is slow. It has only tests.
package chaostest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/serverrig"
	"go.uber.org/goleak"
)

// server is the PostgreSQL server of the tests, and gateway the one of their buckets.
var server, gateway *serverrig.Server

func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		os.Exit(runWorker(text))
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("nothing is run with -short: servers are installed from the network")
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first run builds the gateway
	var err error
	if server, err = serverrig.Postgres(ctx, ""); err == nil {
		gateway, err = serverrig.S3(ctx, "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cancel()
	code := m.Run()
	if err := errors.Join(server.Stop(), gateway.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
