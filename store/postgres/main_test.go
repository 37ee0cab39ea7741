package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/retryrig"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
)

// The tests run this binary again as another process, which works on the store until it finishes or is
// killed.
const (
	childURL    = "SEGNO_TEST_STORE"
	childSchema = "SEGNO_TEST_SCHEMA"
)

// server is the PostgreSQL server of all tests except those that kill a server.
var server *serverrig.Server

func TestMain(m *testing.M) {
	retryrig.Main(map[string]retryrig.Opener{"postgres": openAgain})
	if url := os.Getenv(childURL); url != "" {
		if err := commitUntilKilled(context.Background(), url, os.Getenv(childSchema)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("nothing is run with -short: servers are installed from the network")
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	var err error
	if server, err = serverrig.Postgres(ctx, "", serverrig.PostgresNoSync()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cancel()
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var schemas atomic.Int64

// newSchema returns the name of a schema that does not exist.
func newSchema() string { return fmt.Sprintf("test_%d", schemas.Add(1)) }

// openStore opens a store for tests that do not depend on durability: the server answers before the data is
// on disk.
func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	return openAt(t, server.URL+"&synchronous_commit=off", o, func(*pgxpool.Config) {})
}

func openAt(t testing.TB, url string, o Options, adjust func(*pgxpool.Config)) *Store {
	t.Helper()
	if o.Schema == "" {
		o.Schema = newSchema()
	}
	s, err := open(t.Context(), url, o, adjust)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// sizeOf returns how many bytes the store's tables occupy, with their indexes and overflow tables.
func sizeOf(t testing.TB, s *Store) (sum int64) {
	t.Helper()
	err := s.pool.QueryRow(t.Context(), `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, s.options.Schema).
		Scan(&sum)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// execute changes the database without the store.
func execute(t testing.TB, s *Store, query string, args ...any) {
	t.Helper()
	tag, err := s.pool.Exec(t.Context(), s.sql(query), append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if tag.RowsAffected() == 0 && (tag.Update() || tag.Delete()) {
		t.Fatalf("%s: no row was changed", query)
	}
}
