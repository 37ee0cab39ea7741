// Package chaostest tests a fleet whose parts fail: its workers are killed and stopped, connections and the server end, answers are
// lost, clocks differ and the bucket is slow. It has only tests.
package chaostest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"go.uber.org/goleak"
)

// server is the PostgreSQL server of the tests, and gateway the one of their buckets if suites are tried whole. It is built from the
// network, which takes minutes, so by default bucketURL is a directory.
var (
	server, gateway *serverrig.Server
	bucketURL       string
)

func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		os.Exit(runWorker(text))
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("nothing is run with -short: servers are installed from the network")
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	var err error
	if server, err = serverrig.Postgres(ctx, "", serverrig.PostgresNoSync()...); err == nil {
		err = makeBucket(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cancel()
	code := m.Run()
	if err := errors.Join(server.Stop(), removeBucket()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// makeBucket sets bucketURL.
func makeBucket(ctx context.Context) (err error) {
	if soak.IsWhole() {
		if gateway, err = serverrig.S3(ctx, ""); err == nil {
			bucketURL = gateway.URL
		}
		return err
	}
	dir, err := os.MkdirTemp("", "segno-bucket-")
	bucketURL = "file://" + dir
	return err
}

func removeBucket() error {
	if gateway != nil {
		return gateway.Stop()
	}
	return os.RemoveAll(strings.TrimPrefix(bucketURL, "file://"))
}
